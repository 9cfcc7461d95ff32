"""E-mails a second from the queue to a provider's HTTP API: Resend's transport, by one process and by several together.

The provider is a sink like the mail server's (sink.py): in a process of its own, it accepts, counts and discards.
"""

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import cast

import uvloop
from django.test.utils import override_settings
from pydantic import SecretStr

from benchmarks.figures import Figure
from benchmarks.rounds import rate
from demo.fakes.children import die_with_parent

HOST = "127.0.0.1"
ROUNDS = 5
MAILS = 600  # a round
END_OF_HEADERS = b"\r\n\r\n"
LENGTH = b"content-length:"


def measure() -> list[Figure]:
    """Return the rates."""
    from benchmarks.once import crew, queues  # noqa: PLC0415  the sink's process has no Django
    from weir.workers.mail.sending import runner  # noqa: PLC0415  as above

    with _running() as port:
        url = f"resend+http://re_bench@{HOST}:{port}"
        with override_settings(WEIR_MAIL_RELAYS=[SecretStr(url)]):
            alone = _rates(port, lambda: queues.fill(MAILS), runner.send_due)
        with crew.running(queues.PROCESSES, HOST, port, WEIR_MAIL_RELAYS=url) as several:
            together = _rates(port, lambda: queues.fill(MAILS), lambda: several.send("send_due"))
    return [
        Figure(name="once_by_provider", value=median(alone), unit="e-mails/s"),
        Figure(name=f"once_by_provider_by_{queues.PROCESSES}", value=median(together), unit="e-mails/s"),
    ]


def _rates(port: int, fill: Callable[[], object], send: Callable[[], object]) -> list[float]:
    """Return the rates of the rounds after the first; AssertionError if the sink has not counted all e-mails."""
    found = []
    for _ in range(1 + ROUNDS):
        fill()
        before = _accepted(port)
        found.append(rate(MAILS, send))
        if (sent := _accepted(port) - before) != MAILS:
            raise AssertionError(f"{MAILS} e-mails were to be sent, but the sink has {sent}")
    return found[1:]


class _Connection(asyncio.Protocol):
    """One connection, which receives requests one after the other."""

    accepted = 0  # e-mails, of all connections
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every whole request: a POST is an e-mail, and a GET asks how many there were."""
        self._unread += data
        while self._take():
            pass

    def _take(self) -> bool:
        head, end, rest = self._unread.partition(END_OF_HEADERS)
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(LENGTH)]
        length = int(lengths[0].removeprefix(LENGTH)) if lengths else 0
        if not end or len(rest) < length:
            return False
        self._unread = rest[length:]
        if head.startswith(b"POST"):
            _Connection.accepted += 1
        body = b'{"id": "%d"}' % _Connection.accepted
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        return True


def _accepted(port: int) -> int:
    client = http.client.HTTPConnection(HOST, port)
    try:
        client.request("GET", "/")
        return int(json.loads(client.getresponse().read())["id"])
    finally:
        client.close()


async def _serve() -> None:
    """Print the port, and serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(_Connection, HOST, 0, backlog=1_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def _running() -> Iterator[int]:
    """Run a sink in a process of its own, and yield its port; end it on leaving."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.once.provider"], stdout=subprocess.PIPE) as process:
        try:
            yield int(process.stdout.readline() if process.stdout else b"")
        finally:
            process.terminate()


if __name__ == "__main__":
    die_with_parent()
    uvloop.run(_serve())
