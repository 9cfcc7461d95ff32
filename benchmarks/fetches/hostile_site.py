"""A server of hostile answers: `python hostile_site.py PORT`, on all addresses of this host. The path says which."""

import asyncio
import gzip
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import uvloop

OK = b"HTTP/1.1 200 OK\r\n"
MEMBER = gzip.compress(b"", 9, mtime=0)
MEMBERS = gzip.compress(MEMBER * (5 * 2**20 // len(MEMBER)), 9, mtime=0)
MOST_BYTES = 50_000_000  # of an answer without an end


def _endless(beginning: bytes, more: bytes) -> Iterator[bytes]:
    yield beginning
    for _ in range(MOST_BYTES // len(more)):
        yield more


def _whole(*headers: bytes, body: bytes) -> Iterator[bytes]:
    yield OK + b"".join(header + b"\r\n" for header in headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


ANSWERS = {
    # Interim answers without end.
    "interim": lambda: _endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 500),
    # 13 KB that are 262,144 empty members of gzip.
    "members": lambda: _whole(b"Content-Encoding: gzip, gzip", body=MEMBERS),
    # 256 KB of headers, each byte of which is stored as two, and a body.
    "headers": lambda: _whole(*(b"X-%03d: " % number + b"\xe9" * 2_560 for number in range(100)), body=b"z" * 65_000),
    # A body in chunks of one byte.
    "chunks": lambda: _endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 2_000),
}


async def _pieces(path: str) -> AsyncIterator[bytes]:
    for piece in ANSWERS[path.strip("/").partition("/")[0]]():
        yield piece


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            async for piece in _pieces(path):
                writer.write(piece)
                await writer.drain()
    writer.close()


async def _run(port: int) -> None:
    server = await asyncio.start_server(_serve, "0.0.0.0", port, backlog=1_000)  # noqa: S104  each address is a site
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_run(int(sys.argv[1])))
