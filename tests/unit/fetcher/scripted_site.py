"""A site that does with each connection what a script says, and remembers after which request each body was sent."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

LINGER_0 = struct.pack("ii", 1, 0)  # a close resets the connection


@dataclass(frozen=True, kw_only=True)
class Step:
    """What the site does about one request."""

    delay_s: float = 0.0  # before the answer
    framing: str = "length"  # or "chunked", "end": how the body ends
    interims: int = 0
    pieces: int = 1  # in which the answer is written, a little apart
    ending: str = "keep"  # or "close", "reset", "cut": in the middle of the body
    extras: tuple[float, ...] = ()  # seconds after the answer, at which another one is written that nobody asked for


@dataclass(frozen=True, kw_only=True)
class Script:
    """What the site does, connection by connection: the last of each is repeated."""

    greetings: tuple[bool, ...] = (False,)  # an answer at once, before any request
    steps: tuple[Step, ...] = (Step(),)


@dataclass
class ScriptedSite:
    """The site, while it runs.

    By the number of a body, `after` has the paths of requests that had arrived last, and `sent` the times between which
    the body was sent.
    """

    script: Script
    # Not 127.0.0.1: a client that looks for a server that has ended would come here if its port is used again.
    address: str = "127.0.77.1"
    after: dict[int, set[str]] = field(default_factory=dict)
    sent: dict[int, tuple[float, float]] = field(default_factory=dict)
    arrivals: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server((self.address, 0))
        self.origin = f"http://{self.address}:{self._listener.getsockname()[1]}"
        self._numbers = count()
        self._steps = iter(self.script.steps)
        self._greetings = iter(self.script.greetings)
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._begin(self._accept)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _begin(self, do: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=do, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                self._open.append(accepted)
                self._begin(self._serve, accepted)

    def _serve(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            last = ""
            if next(self._greetings, self.script.greetings[-1]):
                self._answer(accepted, last, Step())
            while head := _head(accepted):
                last = head.split(b" ")[1].decode()
                self.arrivals.append((time.monotonic(), last))
                step = next(self._steps, self.script.steps[-1])
                time.sleep(step.delay_s)
                self._answer(accepted, last, step)
                if step.ending != "keep":
                    if step.ending == "reset":
                        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
                    return
                for seconds in step.extras:
                    time.sleep(seconds)
                    self._answer(accepted, last, Step())

    def _answer(self, accepted: socket.socket, last: str, step: Step) -> None:
        number = next(self._numbers)
        body = b"%d " % number + b"." * 50
        self.after[number] = {_arrived(accepted, last)}
        began_at = time.monotonic()
        pieces = _pieces(_answer(body, step), step.pieces)
        for place, piece in enumerate(pieces):
            accepted.sendall(piece)
            self.sent[number] = (began_at, time.monotonic())
            # It may have arrived while this was written, which nobody can tell from before.
            self.after[number].add(_arrived(accepted, last))
            if place < len(pieces) - 1:
                time.sleep(0.001)


def _answer(body: bytes, step: Step) -> bytes:
    head = b"HTTP/1.1 103 Early Hints\r\n\r\n" * step.interims + b"HTTP/1.1 200 OK\r\n"
    sent = body[:20] if step.ending == "cut" else body
    if step.framing == "chunked":
        return (
            head
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"%x\r\n" % len(body)
            + sent
            + (b"" if step.ending == "cut" else b"\r\n0\r\n\r\n")
        )
    if step.framing == "end":
        return head + b"\r\n" + sent
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + sent


def _pieces(data: bytes, number: int) -> Sequence[bytes]:
    size = -(-len(data) // number)
    return [data[start : start + size] for start in range(0, len(data), size)]


def _head(accepted: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        got = accepted.recv(1)
        if not got:
            return b""
        head += got
    return head


def _arrived(accepted: socket.socket, last: str) -> str:
    """Return the path of the request that has arrived last: one may lie in the kernel, and is not read yet."""
    with suppress(OSError):
        if there := accepted.recv(4096, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            return there.split(b" ")[1].decode()
    return last
