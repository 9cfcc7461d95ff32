"""Sites that behave as the situations of a fetch ask for (situations.py): each has an address or a name of its own.

Most are fake sites. Those that break the rules of TCP, TLS or HTTP are small servers here. What happens below a socket,
in the kernel or in the system's resolver, happens at the edge of this process: `connect` and `getaddrinfo` fail for
those addresses and names alone.
"""

import asyncio
import errno
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from demo.fakes import site_log, sites
from weir.ratelimit import site_settings
from weir.workers.fetches.targets import parts_of

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
PAGES = 400  # fake sites: enough for all situations to be run once more
PUBLIC = "8.8.8.8"  # an address that is routable on the Internet
OWN = "127.1.200"  # the addresses of the small servers
LINGER_0 = struct.pack("ii", 1, 0)  # a close resets the connection
SELF_SIGNED = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=nobody.example"


class SituationSites:
    """All sites of the situations, while they run."""

    def __init__(self, fakes: sites.Sites, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        self._fakes = fakes
        self._loop = loop
        self._folder = folder
        self._hosts = iter(fakes.hosts)
        self._numbers = count(1)
        self._names: dict[str, Callable[[], str]] = {}  # what looks a name up: returns an address, or raises
        self._connects: dict[str, BaseException] = {PUBLIC: OSError("nothing is sent to it")}
        self._foreign: set[str] = set()
        self.has_routes = True  # this host
        self._leaving = ExitStack()

    def address(self) -> str:
        """Return the address of a fake site."""
        return next(self._hosts)

    def page(self, path: str) -> str:
        """Return the URL of a path at a fake site of its own."""
        return f"http://{next(self._hosts)}:{self._fakes.port}{path}"

    def asked(self, path: str) -> int:
        """Return how many requests for this path the fake sites have seen."""
        return sum(arrival.path == path for arrival in site_log.read_arrivals(self._fakes.log)[0])

    def named(self, look_up: Callable[[], str] | None = None, path: str = "/ok") -> str:
        """Return the URL of a path at a name, which `look_up` resolves; without it, to a fake site."""
        name = f"named-{next(self._numbers)}.example"
        self._names[name] = look_up or partial(str, self.address())
        return f"http://{name}:{self._fakes.port}{path}"

    def failing_to_connect(self, error: BaseException) -> str:
        """Return the URL of an address to which `connect` fails with this error."""
        address = next(self._hosts)
        self._connects[address] = error
        return f"http://{address}:{self._fakes.port}/"

    def foreign(self) -> str:
        """Return the URL of an address for which this host has no address of its own."""
        url = self.failing_to_connect(OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL)))
        self._foreign.add(parts_of(url).host)
        return url

    def covered(self) -> str:
        """Return the URL of a host that belongs to the site above it."""
        host = f"named-{next(self._numbers)}.example"
        site_settings.set_rate(f"{host}:{self._fakes.port}", "10/s", covers_subdomains=True)
        self._names[f"below.{host}"] = partial(str, self.address())
        return f"http://below.{host}:{self._fakes.port}/ok"

    def sharing(self, *paths: str) -> list[str]:
        """Return the URLs of these paths at sites that have one address."""
        address = self.address()
        return [self.named(partial(str, address), path) for path in paths]

    def served(self, talk: Talk, path: str = "/", *, tls: bool = False) -> str:
        """Return the URL of a path at a server that does this with each connection."""
        address = f"{OWN}.{next(self._numbers)}"

        async def begin() -> asyncio.Server:
            return await asyncio.start_server(talk, address, 0, ssl=self._certificate() if tls else None)

        server = asyncio.run_coroutine_threadsafe(begin(), self._loop).result()
        return f"http{'s' * tls}://{address}:{server.sockets[0].getsockname()[1]}{path}"

    def closed_port(self, scheme: str = "http") -> str:
        """Return the URL of a port on which nothing listens, now or later."""
        held = self._leaving.enter_context(socket.socket())
        held.bind((f"{OWN}.{next(self._numbers)}", 0))
        address, port = held.getsockname()
        return f"{scheme}://{address}:{port}/"

    def silent(self) -> str:
        """Return the URL of an address that answers no attempt to connect: its queue of connections is full."""
        address = f"{OWN}.{next(self._numbers)}"
        listener = self._leaving.enter_context(socket.create_server((address, 0), backlog=0))
        filling = self._leaving.enter_context(socket.create_connection(listener.getsockname()))
        return f"http://{address}:{filling.getpeername()[1]}/"

    def _certificate(self) -> ssl.SSLContext:
        """Return a context with a self-signed certificate for another name."""
        certificate, key = self._folder / "certificate.pem", self._folder / "key.pem"
        if not key.exists():
            command = [*SELF_SIGNED.split(), "-keyout", str(key), "-out", str(certificate)]
            subprocess.run(command, check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context


@contextmanager
def running(folder: Path) -> Iterator[SituationSites]:
    """Run the sites; `connect` and `getaddrinfo` of this process know of them meanwhile."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="situation-sites")
    thread.start()
    with sites.running(PAGES, folder) as fakes, pytest.MonkeyPatch.context() as patch:
        made = SituationSites(fakes, loop, folder)
        connect, getaddrinfo = socket.socket.connect, socket.getaddrinfo

        def connect_or_fail(self: socket.socket, address: Any) -> None:
            if self.family == socket.AF_UNIX:
                connect(self, address)
            elif self.type == socket.SOCK_DGRAM:  # so the kernel is asked for a route
                if not made.has_routes or address[0] in made._foreign:
                    raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
            elif address[0] in made._connects:
                raise made._connects[address[0]]
            else:
                connect(self, address)

        def look_up(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
            if host not in made._names:
                return getaddrinfo(host, port, *arguments, **options)
            address = made._names[host]()
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))] if address else []

        patch.setattr(socket.socket, "connect", connect_or_fail)
        patch.setattr(socket, "getaddrinfo", look_up)
        try:
            yield made
        finally:
            made._leaving.close()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


# --- what servers do with a connection ----------------------------------------------------------------------------


def saying(answer: bytes, *, then: str = "close") -> Talk:
    """Answer each request with these bytes; then close the connection, reset it, or wait."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(answer)
        await writer.drain()
        await _end(writer, then)

    return talk


async def close_in_the_handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the connection when the client has begun: bytes that nobody has read would be answered with a reset."""
    await reader.read(65_536)
    await _end(writer, "close")


async def reset_at_once(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reset the connection before anything was said."""
    await _end(writer, "reset")


async def speak_at_once(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say something that is not TLS."""
    writer.write(b"220 mail.example ESMTP\r\n")
    await writer.drain()


def impatient(page: bytes, closes_after_s: float) -> Talk:
    """Close the first connection when it has waited for this time; answer the requests of later ones."""
    connections = count()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if next(connections) == 0:
            await asyncio.sleep(closes_after_s)
        else:
            await _request(reader)
            writer.write(page)
            await writer.drain()
        await _end(writer, "close")

    return talk


def closing_on_the_second(page: bytes) -> Talk:
    """Answer the first request of a connection; close it without an answer when the second comes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(page)
        await writer.drain()
        await _request(reader)
        await _end(writer, "close")

    return talk


def http(status: bytes, body: bytes = b"", *headers: bytes) -> bytes:
    """Return an answer with a Content-Length."""
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, length, b"", body])


def unless_changed(page: bytes, unchanged: bytes) -> Talk:
    """Answer with the page; a request that asks whether it has changed gets the other answer."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(unchanged if b"if-none-match" in (await _request(reader)).lower() else page)
        await writer.drain()
        await _end(writer, "close")

    return talk


async def _request(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def _end(writer: asyncio.StreamWriter, how: str) -> None:
    if how == "wait":
        await asyncio.sleep(60)
    if how == "reset":
        plain = writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
    writer.transport.abort()


# --- how names are looked up --------------------------------------------------------------------------------------


GAI_ERRORS = {
    socket.EAI_NONAME: "Name or service not known",
    socket.EAI_NODATA: "No address associated with hostname",
    socket.EAI_AGAIN: "Temporary failure in name resolution",
    socket.EAI_MEMORY: "Memory allocation failure",
    socket.EAI_SYSTEM: "System error",
}


def failing(code: int) -> Callable[[], str]:
    """Return a look-up that fails with this code of getaddrinfo."""

    def look_up() -> str:
        raise socket.gaierror(code, GAI_ERRORS[code])

    return look_up


def slow(seconds: float, address: str = "") -> Callable[[], str]:
    """Return a look-up that takes this long."""

    def look_up() -> str:
        time.sleep(seconds)
        return address

    return look_up
