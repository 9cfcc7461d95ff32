"""Extends smtplib's connections: each step ends in time, and logins are in UTF-8, or use an access token."""

import smtplib
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from weir.conf import settings

LONGEST_REPLY = (
    65_536  # bytes of all lines: RFC 5321 (4.5.3.1.5) allows 512 bytes per line, and servers write a few lines
)
TLS_RECORD = 16_384  # bytes that are written in one piece; the time is checked between two pieces (RFC 8446, 5.1)
READ_AT_ONCE = 4_096  # bytes

Reply = tuple[int, bytes]


class SmtpConnection(smtplib.SMTP):
    """smtplib's SMTP, in which each step ends in time. Raises OSError when the time is over.

    Outside of `step`, each sending and each reply may take `timeout` seconds, as a whole. (smtplib's own time-out
    begins anew with each byte that comes.) Connecting may take `timeout` for each address of the host, as in smtplib.
    """

    file: Any
    sock: Any
    timeout: float
    _end_at: float | None = None

    @contextmanager
    def step(self, longest_s: float) -> Iterator[None]:
        """Limit the time of everything that is sent and received inside this context, together."""
        before, self._end_at = self._end_at, time.monotonic() + longest_s
        try:
            yield
        finally:
            self._end_at = before

    def send(self, s: Any) -> None:  # noqa: ANN401  as smtplib has it
        """Send the text or the bytes."""
        data = s.encode(self.command_encoding) if isinstance(s, str) else s
        with self._some_step():
            for start in range(0, len(data), TLS_RECORD):
                try:
                    self._set_time_left()
                except TimeoutError as error:
                    self.close()
                    raise smtplib.SMTPServerDisconnected(f"Connection unexpectedly closed: {error}") from error
                super().send(data[start : start + TLS_RECORD])

    def getreply(self) -> Reply:
        """Return code and text of the next reply."""
        with self._some_step():
            if self.file is None:
                self.file = _Replies(self)
            self.file.begin()
            return super().getreply()

    @property
    def contradicts_itself(self) -> bool:
        """Whether the last reply both accepts and refuses. RFC 5321, 4.2.1, requires the same code in all lines."""
        return b"2" in self.file.digits and len(self.file.digits) > 1

    def set_no_delay(self) -> None:
        """From now on, send what is small at once: the dot after a large content must not wait for an ACK."""
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def require_silence(self) -> None:
        """Raise SMTPServerDisconnected if the server, which is to wait for us, has left, or has said something."""
        if self.file.is_ahead or self._is_heard():
            raise smtplib.SMTPServerDisconnected("It did not wait for the content.")

    def docmd(self, cmd: str, args: str = "") -> Reply:
        """Send a command, and return the reply.

        Raises SMTPException if more than the reply to STARTTLS came unencrypted. An attacker on the way may have added
        that, so that it is taken for the reply to an encrypted command (RFC 3207, 6).
        """
        reply = super().docmd(cmd, args)
        if cmd == "STARTTLS" and self.file:
            self.sock.settimeout(self.timeout)  # limits the handshake as a whole
            if self.file.is_ahead:
                self.close()
                raise smtplib.SMTPException("More than the reply to STARTTLS came in the clear: it may be forged.")
        return reply

    def ehlo(self, name: str = "") -> Reply:
        """Send EHLO with our name: WEIR_MAIL_EHLO_NAME, or this host's."""
        return super().ehlo(name or settings.WEIR_MAIL_EHLO_NAME)

    def helo(self, name: str = "") -> Reply:
        """Send HELO with our name, to a server that does not know EHLO."""
        return super().helo(name or settings.WEIR_MAIL_EHLO_NAME)

    def login(self, user: str, password: str, **options: Any) -> Reply:
        """Log in with the best mechanism that the server offers. Raises SMTPException, and what `auth` raises."""
        return super().login(user, _Utf8(password), **options)  # CRAM-MD5 hashes the password's bytes

    def auth(self, mechanism: str, authobject: Any, **options: Any) -> Reply:  # noqa: ANN401  as smtplib has them
        """Log in with this mechanism. User and password are sent in UTF-8 (RFC 4616), which smtplib does not do.

        Raises LoginNotEncodable, because Python's own error would show a character of the password.
        """

        def answer(challenge: bytes | None = None) -> Any:  # noqa: ANN401  as smtplib has it
            said = authobject(challenge)
            return None if said is None else _Utf8(said)

        try:
            return super().auth(mechanism, answer, **options)
        except UnicodeError:
            pass
        raise LoginNotEncodable

    def receive(self) -> bytes:
        """Return some bytes from the server; no bytes at the end of the connection."""
        self._set_time_left()
        read: bytes = self.sock.recv(READ_AT_ONCE)
        return read

    def login_by_token(self, user: str, token: str) -> None:
        """Log in with XOAUTH2, as Google and Microsoft describe it. Raises SMTPException, with what the server said."""
        self.ehlo_or_helo_if_needed()
        if "XOAUTH2" not in self.esmtp_features.get("auth", "").upper().split():
            raise smtplib.SMTPNotSupportedError("The mail server offers no AUTH XOAUTH2.")
        challenges: list[bytes] = []

        def answer(challenge: bytes | None = None) -> str:
            if challenge is None:
                return f"user={user}\1auth=Bearer {token}\1\1"
            challenges.append(challenge)  # JSON that says what is wrong; the refusal follows our empty answer
            return ""

        try:
            self.auth("XOAUTH2", answer)
        except smtplib.SMTPAuthenticationError as error:
            said = b" ".join([as_bytes(error.smtp_error), *challenges])
            raise smtplib.SMTPAuthenticationError(error.smtp_code, said) from error

    def _is_heard(self) -> bool:
        """Whether more has come than was read. Over TLS, only reading tells: it may be a new key, which is no word."""
        self.sock.settimeout(0)
        try:
            self.sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def _some_step(self) -> AbstractContextManager[None]:
        return self.step(self.timeout) if self._end_at is None else nullcontext()

    def _set_time_left(self) -> None:
        left_s = (self._end_at or 0.0) - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        if self.sock:
            self.sock.settimeout(left_s)


class TlsConnection(SmtpConnection, smtplib.SMTP_SSL):
    """An SmtpConnection with TLS from the first byte."""


class LoginNotEncodable(smtplib.SMTPException):
    """The user or the password contains a character that UTF-8 cannot encode, such as half of a surrogate pair."""

    def __init__(self) -> None:
        super().__init__("The user or the password has a character that cannot be sent (in UTF-8).")


class _Utf8(str):
    """A text that is always encoded in UTF-8, whatever encoding smtplib asks for."""

    __slots__ = ()

    def encode(self, _encoding: str = "", errors: str = "strict") -> bytes:
        return super().encode("utf-8", errors)


class _Replies:
    """The file from which smtplib reads the server's lines."""

    def __init__(self, connection: SmtpConnection) -> None:
        self._connection = connection
        self._read = bytearray()
        self._left = LONGEST_REPLY
        self.digits: set[bytes] = set()  # the first digits of the reply's lines

    @property
    def is_ahead(self) -> bool:
        """Whether the server has sent more than was read."""
        return bool(self._read)

    def begin(self) -> None:
        """Begin a new reply."""
        self._left = LONGEST_REPLY
        self.digits.clear()

    def readline(self, limit: int) -> bytes:
        """Return the next line, at most `limit` bytes of it; no bytes if the connection ends before the line does."""
        while b"\n" not in self._read and len(self._read) < limit:
            if not (read := self._connection.receive()):
                return b""
            self._read += read
        line = bytes(self._read[: min(self._read.find(b"\n") + 1 or limit, limit)])
        del self._read[: len(line)]
        self.digits.add(line[:1])
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"The reply is longer than {LONGEST_REPLY} bytes.")
        return line

    def close(self) -> None:
        """Do nothing: the connection closes the socket."""


def as_bytes(said: bytes | str) -> bytes:
    """Return the `smtp_error` of an exception of smtplib, which may be bytes or a text, as bytes."""
    return said if isinstance(said, bytes) else said.encode()
