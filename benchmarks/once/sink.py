"""A mail server that uses very little CPU time: it accepts, counts and discards every e-mail.

With a folder, it writes each e-mail to a file of its own there, and accepts it once the file is on the disk (fsync), as
mail servers do that lose nothing (RFC 5321, 6.1).

It speaks the SMTP that clients may expect (RFC 5321 with PIPELINING, SIZE and 8BITMIME), over asyncio.Protocol and
uvloop, in a process of its own. The demo's mail server, which keeps a list, takes about 0.8 ms an e-mail, for which the
sides of a benchmark would have to wait.
"""

import asyncio
import os
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import uvloop

from demo.fakes.children import die_with_parent

HOST = "127.0.0.1"
END_OF_CONTENT = b"\r\n.\r\n"
OK = b"250 OK\r\n"
REPLIES = {
    b"EHLO": b"250-sink.example\r\n250-PIPELINING\r\n250-SIZE 33554432\r\n250 8BITMIME\r\n",
    b"HELO": b"250 sink.example\r\n",
    b"MAIL": OK,
    b"RCPT": OK,
    b"RSET": OK,
    b"DATA": b"354 Go ahead\r\n",
    b"QUIT": b"221 Bye\r\n",
}
UNKNOWN = b"500 What?\r\n"


class Connection(asyncio.Protocol):
    """One connection, which receives lines or, after DATA, content."""

    accepted = 0  # e-mails, of all connections
    folder: Path | None = None  # to which they are written
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._unread = b""
        self._is_content = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(b"220 sink.example\r\n")

    def data_received(self, data: bytes) -> None:
        """Answer every whole line, and every whole e-mail."""
        self._unread += data
        while self._take_content() if self._is_content else self._take_line():
            pass

    def _take_line(self) -> bool:
        line, end, rest = self._unread.partition(b"\r\n")
        if not end:
            return False
        command = line[:4].upper()
        if command == b"NOOP":
            self._transport.write(b"250 %d\r\n" % Connection.accepted)
        else:
            self._transport.write(REPLIES.get(command, UNKNOWN))
        self._is_content = command == b"DATA"
        # The dot may be the first line: the line break before it is the one after DATA.
        self._unread = end + rest if self._is_content else rest
        if command == b"QUIT":
            self._transport.close()
        return True

    def _take_content(self) -> bool:
        content, end, rest = self._unread.partition(END_OF_CONTENT)
        if not end:
            return False
        self._unread, self._is_content = rest, False
        Connection.accepted += 1
        if self.folder is not None:
            _write(self.folder / str(Connection.accepted), content)
        self._transport.write(OK)
        return True


def _write(file: Path, content: bytes) -> None:
    """Write the file, and return when it is on the disk."""
    with file.open("xb", buffering=0) as out:
        out.write(content)
        os.fsync(out.fileno())


async def serve() -> None:
    """Print the port, and serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Connection, HOST, 0, backlog=1_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@dataclass(frozen=True, kw_only=True)
class Sink:
    """A sink that is running."""

    port: int

    def accepted(self) -> int:
        """Return how many e-mails it has accepted."""
        with smtplib.SMTP(HOST, self.port) as client:
            return int(client.noop()[1])


@contextmanager
def running(onto_disk: Path | None = None) -> Iterator[Sink]:
    """Run a sink in a process of its own; end it on leaving. It writes e-mails below `onto_disk`, and deletes them."""
    with TemporaryDirectory(dir=onto_disk) as folder:
        command = [sys.executable, "-m", "benchmarks.once.sink", *([folder] if onto_disk else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                said = process.stdout.readline() if process.stdout else b""
                yield Sink(port=int(said))
            finally:
                process.terminate()


if __name__ == "__main__":
    die_with_parent()
    Connection.folder = Path(sys.argv[1]) if sys.argv[1:] else None
    uvloop.run(serve())
