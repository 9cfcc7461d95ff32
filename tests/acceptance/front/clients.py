"""Clients of a web process that send what no honest client does."""

import re
import socket
from contextlib import suppress
from time import monotonic
from urllib.parse import urlsplit

import psutil

from tests.waiting import in_time

END = b"\r\n\r\n"


def connected(url: str, *, receives: int = 0) -> socket.socket:
    """Return a connection to a web process; `receives` bytes fit into its buffer."""
    port = urlsplit(url).port
    to = socket.socket()
    if receives:
        to.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    to.settimeout(30)
    to.connect(("127.0.0.1", port))
    return to


def head(line: str, *headers: str) -> bytes:
    """Return a request's head."""
    return "\r\n".join([f"{line} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


def answer(to: socket.socket) -> bytes:
    """Return what comes until the connection is closed, or has nothing more to say for a second."""
    received = b""
    with suppress(OSError):
        while chunk := to.recv(65_536):
            received += chunk
            to.settimeout(1)
    return received


def ask(url: str, path: str, *headers: str) -> bytes:
    """Return the answer to a request."""
    with connected(url) as to:
        to.sendall(head(f"GET {path}", "Connection: close", *headers))
        return answer(to)


def status(received: bytes) -> int:
    """Return the status of an answer; 0 if there is none."""
    found = re.match(rb"HTTP/1\.[01] (\d{3})", received)
    return int(found[1]) if found else 0


def health(url: str, *paths: str) -> dict[str, int]:
    """Return the status of each health page. Raises TooLateError if PostgreSQL was slower than they wait for it."""
    answers = {path: ask(url, path) for path in paths}
    in_time(
        not any(b"does not answer within a second" in text for text in answers.values()), "PostgreSQL answered late"
    )
    return {path: status(text) for path, text in answers.items()}


def closed_after_s(to: socket.socket, most_s: float) -> float:
    """Return the seconds until a connection is closed; infinity if it is not closed within `most_s`."""
    began = monotonic()
    to.settimeout(most_s)
    try:
        while to.recv(65_536):
            pass
    except TimeoutError:
        return float("inf")
    except OSError:
        pass
    return monotonic() - began


def port_of(url: str) -> int:
    """Return the port of an address."""
    return urlsplit(url).port or 80


def listens(url: str) -> int:
    """Return the id of the process that listens there."""
    port = port_of(url)
    [pid] = {at.pid for at in psutil.net_connections("tcp") if at.status == "LISTEN" and at.laddr[1:] == (port,)}
    assert pid is not None
    return pid


def resident_mib(url: str) -> float:
    """Return the memory of what listens there."""
    return float(psutil.Process(listens(url)).memory_info().rss) / 2**20
