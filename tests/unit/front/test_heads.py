"""What no head may have, under any server; and who is alive."""

import asyncio
import json

import pytest

from project.front import heads
from project.front.refusals import Message
from tests.cases import for_each
from tests.unit.front.asgi import Client, Counting, ask, scope

BIG = b"x" * (heads.MOST_BYTES + 1)
LENGTH, CHUNKED = (b"content-length", b"3"), (b"transfer-encoding", b"chunked")


def status_of(path: str, *headers: tuple[bytes, bytes], **more: str) -> int:
    async def asked() -> Client:
        application = Counting()
        application.may_end.set()
        client = Client([b""])
        await ask(heads.CheckedHeads(application), {**scope(path, *headers), **more}, client)
        return client

    return asyncio.run(asked()).status


@for_each(
    ("status", "path", "headers"),
    [
        (200, "/page", []),
        (200, "/page", [LENGTH]),
        (200, "/page", [CHUNKED]),
        (400, "/page", [LENGTH, CHUNKED]),
        (400, "/page", [CHUNKED, LENGTH]),
        (400, "/livez", [CHUNKED, LENGTH]),
        (400, "/page", [LENGTH, LENGTH]),
        (431, "/page", [(b"cookie", BIG)]),
        (431, "/page", [(b"x", b"")] * (heads.MOST_BYTES // 5 + 1)),
        (431, f"/{BIG.decode()}", []),
        (431, "/api/v1/fetches", [(b"cookie", BIG)]),
    ],
)
def test_a_head_is_checked(status: int, path: str, headers: list[tuple[bytes, bytes]]) -> None:
    assert status_of(path, *headers) == status


@for_each(
    ("status", "header", "more"),
    [
        (200, CHUNKED, {"http_version": "1.1"}),
        (400, CHUNKED, {"http_version": "1.0"}),
        (200, LENGTH, {"http_version": "1.0"}),
        (501, LENGTH, {"method": "CONNECT"}),
        (200, (b"cookie", rb'a="b\001"'), {}),
        (400, (b"cookie", rb'a=b; sessionid="c\000d"'), {}),
    ],
)
@for_each("path", ["/page", "/livez"])
def test_what_others_read_otherwise_is_refused(
    path: str, status: int, header: tuple[bytes, bytes], more: dict[str, str]
) -> None:
    """RFC 9112, 6.1; RFC 9110, 9.3.6; and PostgreSQL, which takes no NUL."""
    assert status_of(path, header, **more) == status


def test_a_websocket_is_refused() -> None:
    """Django would raise an error."""
    client = Client()
    asked = {"type": "websocket", "path": "/", "headers": []}
    asyncio.run(heads.CheckedHeads(Counting())(asked, client.receive, client.send))
    assert client.sent == [{"type": "websocket.close"}]


@for_each("sizes", [[0], [1], [heads.PIECE], [heads.PIECE + 1], [3 * heads.PIECE, 0], [7, 10 * heads.PIECE]])
def test_an_answer_goes_out_in_pieces(sizes: list[int]) -> None:
    """A server keeps all that it is handed: whoever reads slowly would have MOST_S for all of it."""

    async def asked() -> Client:
        application = Counting([bytes([number]) * size for number, size in enumerate(sizes)])
        application.may_end.set()
        client = Client([b""])
        await ask(heads.CheckedHeads(application), scope("/page"), client)
        return client

    _, *pieces = asyncio.run(asked()).sent
    assert b"".join(piece["body"] for piece in pieces) == b"".join(bytes([n]) * size for n, size in enumerate(sizes))
    assert max(len(piece["body"]) for piece in pieces) <= heads.PIECE
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]


def test_livez_asks_nobody() -> None:
    """Wherever the application is mounted; a page of a longer name is another one."""

    async def nobody(*_arguments: object) -> None:
        raise AssertionError

    async def asked() -> Client:
        client = Client()
        mounted = {**scope("/weir/livez"), "root_path": "/weir"}
        await ask(heads.CheckedHeads(nobody), mounted, client)
        return client

    client = asyncio.run(asked())
    assert (client.status, json.loads(client.sent[1]["body"])) == (200, {"process": "ok"})
    assert status_of("/livez/more") == 200


def test_a_client_that_takes_no_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "MOST_S", 0.1)

    async def asked() -> None:
        await ask(heads.CheckedHeads(Counting()), scope("/livez"), Client(reads=False))

    asyncio.run(asyncio.wait_for(asked(), 10))


def test_a_server_that_can_closes_the_connection_of_such_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the application ends when that is done: an answer that is not whole would be an error to the server."""
    monkeypatch.setattr(heads, "MOST_S", 0.1)

    async def asked() -> list[str]:
        said, is_closed = [], asyncio.Event()

        async def receive() -> Message:
            await is_closed.wait()
            said.append("disconnect")
            return {"type": "http.disconnect"}

        def close() -> None:
            said.append("close")
            asyncio.get_running_loop().call_later(0.05, is_closed.set)

        known = {**scope("/livez"), "state": {heads.CLOSE: close}}
        await heads.CheckedHeads(Counting())(known, receive, Client(reads=False).send)
        return said

    assert asyncio.run(asyncio.wait_for(asked(), 10)) == ["close", "disconnect"]
