"""The process of the fake sites: it listens on many loopback addresses, and logs when each request arrived.

A process that logs the time when it reads a request also measures its own lateness. This one logs when the *kernel*
received the request's first byte (`SO_TIMESTAMPNS`, by CLOCK_REALTIME), so the log is right even if the process was
busy or stopped. The kernel gives one time for each read, that of the last segment read. A request sent as one segment
is timed exactly; segments that are read together have the time of the last of them.

Answers are in a log of their own, with the time by this process's clock.
"""

import argparse
import asyncio
import errno
import os
import resource
import signal
import socket
import ssl
import struct
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

import uvloop

from demo.fakes.answers import PIECE, Answer, Answers
from demo.fakes.children import die_with_parent
from demo.fakes.files import write_whole
from demo.fakes.hosts import LOOPBACK, host
from demo.fakes.site_tls import SiteTls, context_of

SO_TIMESTAMPNS = 35  # Linux: the socket module does not name it
TIMESPEC = struct.Struct("@ll")
FULL_FOR_S = 0.1  # how long a site accepts no connection after the process has reached its limit of open files
TIMERS_FIRE_EARLY_S = 0.002  # uvloop's timers do, by up to 1.4 ms


def kernel_time_ns(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """Return the kernel's time of a read, from what `recvmsg` returned beside the data; None if there is none."""
    for _, kind, data in ancillary:
        if kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = TIMESPEC.unpack(data)
            return int(seconds * 1_000_000_000 + nanoseconds)
    return None


class Log:
    """Writes both logs (`site_log` reads them), each line before its answer: a client with the answer finds it.

    Requests: `<arrival ns> <host> <path> <client> <n>`, for the n-th request of a connection. Answers:
    `<ns> <host> <path> <status>`, with the time right before the answer is sent.
    """

    def __init__(self, requests: Path, answers: Path) -> None:
        self._requests = requests.open("ab", buffering=0)
        self._answers = answers.open("ab", buffering=0)
        self.requests = 0
        self.connections = 0
        self.reads_without_kernel_time = 0

    def read_at_ns(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        """Return the kernel's time of a read; if there is none, count that, and return this process's time."""
        if (at_ns := kernel_time_ns(ancillary)) is not None:
            return at_ns
        self.reads_without_kernel_time += 1
        return time.time_ns()

    def asked(self, at_ns: int, site_host: bytes, path: bytes, client: bytes, place: int) -> None:
        self._requests.write(b"%d %s %s %s %d\n" % (at_ns, site_host, path, client, place))
        self.requests += 1
        self.connections += place == 1

    def answered(self, site_host: bytes, path: bytes, status: bytes) -> None:
        """Log an answer that is sent now, unless it has no status."""
        if path and status:
            self._answers.write(b"%d %s %s %s\n" % (time.time_ns(), site_host, path, status))


class Site:
    """One address that accepts connections, with TLS if it has a context for it."""

    def __init__(self, listener: socket.socket, answers: Answers, log: Log, tls: ssl.SSLContext | None) -> None:
        self.host: bytes = listener.getsockname()[0].encode()
        self.answers = answers
        self.log = log
        self.tls = tls
        self._listener = listener
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # accepted sockets inherit both options
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asyncio.get_running_loop().add_reader(listener, self._accept)

    def _accept(self) -> None:
        try:
            while True:
                accepted, (client, _) = self._listener.accept()
                accepted.setblocking(False)
                Connection(accepted, client, self)
        except (BlockingIOError, ConnectionAbortedError):
            pass
        except OSError as error:
            if error.errno not in {errno.EMFILE, errno.ENFILE}:
                raise
            # Further connections wait in the kernel, as those to a real server do.
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listener)
            loop.call_later(FULL_FOR_S, loop.add_reader, self._listener, self._accept)


class Connection:
    """A client's connection: logs requests as it reads them, and answers them one after the other."""

    def __init__(self, accepted: socket.socket, client: str, site: Site) -> None:
        self._socket = accepted
        self._client = client.encode()
        self._site = site
        self._tls = SiteTls(site.tls) if site.tls else None
        self._loop = asyncio.get_running_loop()
        self._partial = b""  # the part of the next request that has arrived
        self._began_ns = 0
        self._requests = 0
        self._unanswered: deque[tuple[bytes, bytes, bool]] = deque()  # method, path, whether it is the last
        self._sending: asyncio.Task[None] | None = None
        self._loop.add_reader(accepted, self._read)

    def _close(self) -> None:
        self._unanswered.clear()
        self._loop.remove_reader(self._socket)
        if self._sending:
            self._sending.cancel()
        self._socket.close()

    def _read(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(65_536, socket.CMSG_SPACE(TIMESPEC.size))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._partial) > len(PIECE):
            self._close()
            return
        if self._tls:
            try:
                data, reply = self._tls.receive(data)
                if reply:
                    self._socket.sendall(reply)  # the handshake's part: a few kilobytes
            except OSError:
                self._close()
                return
            if not data:
                return
        read_ns = self._site.log.read_at_ns(ancillary)
        self._began_ns = self._began_ns if self._partial else read_ns
        *requests, self._partial = (self._partial + data).split(b"\r\n\r\n")
        for request in requests:
            self._take(request)
            self._began_ns = read_ns  # the first byte of the next request was in this read
        self._answer()

    def _take(self, request: bytes) -> None:
        """Log a request, and queue it for its answer; what is not HTTP is answered, but not logged."""
        line, _, headers = request.partition(b"\r\n")
        match line.split():
            case method, path, version:
                self._requests += 1
                self._site.log.asked(self._began_ns, self._site.host, path, self._client, self._requests)
                is_last = version == b"HTTP/1.0" or b"connection: close" in headers.lower()
                self._unanswered.append((method, path, is_last))
            case _:
                self._unanswered.append((b"", b"", True))

    def _answer(self) -> None:
        """Answer in the order of arrival; an answer that cannot be sent immediately delays those behind it."""
        while self._unanswered and not self._sending:
            method, path, is_last = self._unanswered.popleft()
            reply = self._site.answers.to(method, path)
            ends = is_last or reply.closes
            unsent = memoryview(self._on_wire(reply.head + reply.body))
            if not reply.delay_s:
                self._site.log.answered(self._site.host, path, reply.status)
                with suppress(BlockingIOError, ConnectionError):  # a broken connection shows again in _send
                    unsent = unsent[self._socket.send(unsent) :]
            if unsent or reply.stream:
                self._sending = self._loop.create_task(self._send(path, reply, unsent, ends=ends))
            elif ends:
                self._close()

    def _on_wire(self, text: bytes) -> bytes:
        return self._tls.encrypted(text) if self._tls else text

    async def _send(self, path: bytes, reply: Answer, unsent: memoryview, *, ends: bool) -> None:
        """Send an answer that waits for its time or for the client; then continue with the next."""
        try:
            if reply.delay_s:
                await asyncio.sleep(reply.delay_s + TIMERS_FIRE_EARLY_S)
                self._site.log.answered(self._site.host, path, reply.status)
            await self._loop.sock_sendall(self._socket, unsent)
            for piece in reply.stream:
                await asyncio.sleep(reply.pause_s)  # even if 0: other connections get their turn
                await self._loop.sock_sendall(self._socket, self._on_wire(piece))
        except OSError:
            ends = True
        self._sending = None
        if ends:
            self._close()
        self._answer()


def listen(hosts: list[str], port: int) -> list[socket.socket]:
    """Listen on the same port of all hosts; port 0 picks one that is free on all of them."""
    listeners: list[socket.socket] = []
    try:
        for address in hosts:
            shared_port = listeners[0].getsockname()[1] if listeners else port
            listeners.append(socket.create_server((address, shared_port), backlog=1_024))
    except OSError as error:
        for listener in listeners:
            listener.close()
        if port or error.errno != errno.EADDRINUSE:
            raise
        return listen(hosts, port)
    return listeners


def die_of_bug(loop: asyncio.AbstractEventLoop, bug: dict[str, object]) -> None:
    """Report the error and end the process: its logs might be wrong."""
    loop.default_exception_handler(bug)
    os._exit(1)


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    log = Log(arguments.log, arguments.answers)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(die_of_bug)
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(signal.SIGINT, stopped.set)
    hosts = [host(index, arguments.network) for index in range(arguments.hosts)]
    listeners = listen(hosts, arguments.port)
    for address, listener in zip(hosts, listeners, strict=True):
        tls = context_of(arguments.certificates, address) if arguments.certificates else None
        Site(listener, Answers(arguments.body_size), log, tls)
    state = {"port": listeners[0].getsockname()[1], "hosts": hosts, "pid": os.getpid()}
    write_whole(arguments.ready, state)
    await stopped.wait()
    counts = {
        "requests": log.requests,
        "connections": log.connections,
        "reads_without_kernel_time": log.reads_without_kernel_time,
    }
    write_whole(arguments.ready, {**state, **counts})


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description="Serve fake web sites, and log when each request arrived.")
    parser.add_argument("--log", type=Path, required=True, help="the request log; it is appended to")
    parser.add_argument("--answers", type=Path, required=True, help="the log of answers; it is appended to")
    parser.add_argument("--ready", type=Path, required=True, help="JSON file, written when all sites listen")
    parser.add_argument("--hosts", type=int, required=True, help="how many sites")
    parser.add_argument("--network", default=LOOPBACK, help="the first two numbers of their addresses")
    parser.add_argument("--port", type=int, default=0, help="their port; 0 picks a free one")
    parser.add_argument("--body-size", type=int, default=2_000, help="bytes of an ordinary page")
    parser.add_argument("--certificates", type=Path, help="the folder of their certificates: they speak TLS")
    parser.add_argument("--die-with-parent", action="store_true", help="end with the thread that started it")
    arguments = parser.parse_args()
    if arguments.die_with_parent:
        die_with_parent()
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    uvloop.run(serve(arguments))


if __name__ == "__main__":
    main()
