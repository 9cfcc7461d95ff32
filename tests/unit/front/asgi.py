"""An ASGI server and applications without a socket."""

import asyncio
from collections.abc import Sequence
from typing import Any

from project.front.refusals import Application, Message, Receive, Scope, Send


def scope(path: str = "/", *headers: tuple[bytes, bytes], client: str = "198.51.100.7") -> Scope:
    """Return what a server tells of a request."""
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(headers),
        "client": (client, 1234),
        "scheme": "http",
    }


class Client:
    """One that sends these parts of a body, and then nothing more; `reads` is whether it takes its answer."""

    def __init__(self, parts: Sequence[bytes] = (), *, ends: bool = True, reads: bool = True) -> None:
        self._parts, self._ends = list(parts), ends
        self.reading = asyncio.Event()
        self.sent: list[Message] = []
        if reads:
            self.reading.set()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"]) if self.sent else 0

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def unread(self) -> int:
        return len(self._parts)

    async def receive(self) -> Message:
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts) or not self._ends}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: Message) -> None:
        await self.reading.wait()
        self.sent.append(message)


class Counting:
    """An application that counts how many of its requests there are at once, and answers when it may."""

    def __init__(self, answer: Sequence[bytes] = (b"",)) -> None:
        self.may_end = asyncio.Event()
        self.now = self.most = 0
        self.bodies: list[bytes] = []
        self._answer = answer

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            self.bodies.append((await receive())["body"])
            await self.may_end.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for number, part in enumerate(self._answer):
                more = number + 1 < len(self._answer)
                await asyncio.sleep(0)  # as for a thread
                await send({"type": "http.response.body", "body": part, "more_body": more})
        finally:
            self.now -= 1


def ask(application: Application, asked: Scope, client: Client) -> "asyncio.Task[Any]":
    """Let an application answer a client."""

    async def answered() -> None:
        await application(asked, client.receive, client.send)

    return asyncio.create_task(answered())
