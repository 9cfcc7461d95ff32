"""Sends HTTP requests to a provider's API over a kept connection, in such a way that it is known how far each came.

With `http.client`, each step is a call: to connect, to write what may be accepted, to read the reply. A client that
takes all steps in one call, and may repeat them, cannot say what a failure means. Redirects are not followed.
"""

import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple

from weir.workers.mail.phases import Phase
from weir.workers.mail.transports.base import BrokenOff, OutcomeUnknown, Unreachable

REFUSAL_WITHIN_S = 2.0  # how soon a reply comes, if at all, after a request could not be written
_REFUSALS = range(400, 500)  # RFC 9110, 15.5; after 5xx the next attempt may succeed
LONGEST_REPLY = 1 << 20  # bytes; a provider's usual reply about one e-mail is shorter than 1 KiB


class Reply(NamedTuple):
    """What the provider answered."""

    status: int
    headers: HTTPMessage
    body: bytes


class ApiConnection:
    """A connection to an API. It is opened again if the other side has closed it. For one thread."""

    def __init__(self, host: str, port: int, *, timeout_s: float, is_tls: bool) -> None:
        made = (
            HTTPSConnection(host, port, timeout=timeout_s, context=_verifying())
            if is_tls
            else HTTPConnection(host, port, timeout=timeout_s)
        )
        made.auto_open = 0  # http.client must not open a connection by itself
        self._http = made
        self._timeout_s = timeout_s  # the longest time of each step before the reply: to connect, to write

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as this side knows."""
        return self._http.sock is not None

    def open(self) -> None:
        """Connect; with TLS, only to a server that can prove to be the host. Raises Unreachable."""
        self.close()
        try:
            self._http.connect()
        except OSError as error:  # errors of TLS and DNS are OSErrors, too
            self.close()
            raise Unreachable(_reason(error)) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection. Raises nothing."""
        try:
            self._http.close()
        except OSError:
            self._http.sock = None  # after a failure to close it, there is no connection either

    def post(
        self, path: str, headers: Mapping[str, str], body: bytes, begin: Callable[[], None], *, reply_timeout_s: float
    ) -> Reply:
        """Send a request and return the reply.

        1. If the other side has closed the kept connection, open another. Raises Unreachable. 2. Call `begin`. 3. Write
        the request. If it cannot be written as a whole, the server cannot have accepted it: if a refusal has come
        meanwhile, return it; else raise BrokenOff. 4. Read the whole reply, in `reply_timeout_s`, however slowly it
        comes. Raises OutcomeUnknown.

        After any error the connection is closed.
        """
        try:
            if not self.is_open or _is_closed_by_peer(self._http.sock):
                self.open()
            self._prepare(path, headers, body)
            begin()
            try:
                self._write(body)
            except BrokenOff:
                if refusal := self._refusal():
                    return refusal
                raise
            return self._read(time.monotonic() + reply_timeout_s)
        except BaseException:
            self.close()
            raise

    def _prepare(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Buffer the headers, which `_write` sends. Raises ValueError for a header that HTTP cannot transmit."""
        self._http.putrequest("POST", path, skip_accept_encoding=True)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self._http.putheader(name, value)

    def _write(self, body: bytes) -> None:
        self._http.sock.settimeout(self._timeout_s)
        try:
            self._http.endheaders(body)
        except OSError as error:  # the kernel has not taken the whole request
            raise BrokenOff(_reason(error), Phase.BEFORE_DOT) from error

    def _refusal(self) -> Reply | None:
        """Return the reply to a request that the server did not read to its end, if that is a refusal (4xx)."""
        try:
            reply = self._read(time.monotonic() + min(REFUSAL_WITHIN_S, self._timeout_s))
        except OutcomeUnknown:
            return None
        finally:
            self.close()
        return reply if reply.status in _REFUSALS else None

    def _read(self, until: float) -> Reply:
        self._http.response_class = partial(_response, until)  # type: ignore[assignment]
        try:
            response = self._http.getresponse()
            body = _whole(response)
        except (OSError, HTTPException, ValueError) as error:
            raise OutcomeUnknown(_reason(error), Phase.AFTER_DOT) from error
        return Reply(response.status, response.headers, body)


class _Timed(io.RawIOBase):
    """Reads a socket until a moment of time.monotonic(). Then it raises TimeoutError, even if bytes still come."""

    def __init__(self, connected: socket.socket, until: float) -> None:
        self._socket = connected
        self._until = until
        self._raw = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401  a buffer of bytes
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("The reply did not end in time.")
        self._socket.settimeout(left_s)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()

    def makefile(self, *_arguments: object) -> io.BufferedReader:
        """Return the buffered reader for which HTTPResponse asks a socket."""
        return io.BufferedReader(self)


def _whole(response: HTTPResponse) -> bytes:
    """Return the body; raise HTTPException if it is incomplete, or too long."""
    body = b""
    while len(body) < LONGEST_REPLY and (piece := response.read(LONGEST_REPLY)):
        body += piece
    if response.length or not response.isclosed():
        raise HTTPException("The reply ended early, or was too long.")
    return body


def _response(until: float, connected: socket.socket, **options: Any) -> HTTPResponse:
    timed: Any = _Timed(connected, until)  # HTTPResponse asks a socket for its makefile only
    return HTTPResponse(timed, **options)


def _is_closed_by_peer(connected: socket.socket) -> bool:
    """Return whether something can be read before a request: the end of the connection, or bytes without a request.

    Tickets for later sessions, which a TLS server may have sent, do not count, because reading skips them.
    """
    connected.setblocking(False)
    try:
        connected.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    return True


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@cache
def _verifying() -> ssl.SSLContext:
    """Return a context that verifies certificates and hosts with the system's CAs, or those in SSL_CERT_FILE."""
    return ssl.create_default_context()
