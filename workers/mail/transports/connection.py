"""smtplib's connections: each step ends in time, and logins are in UTF-8, or by an access token."""

import smtplib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from weir.conf import settings

LONGEST_REPLY = (
    65_536  # bytes, of all lines: RFC 5321 (4.5.3.1.5) allows 512 a line, and no server says more than a few
)
TLS_RECORD = 16_384  # bytes that are written in one piece, so that the time is checked in between (RFC 8446, 5.1)
READ_AT_ONCE = 4_096  # bytes

Reply = tuple[int, bytes]


class SmtpConnection(smtplib.SMTP):
    """smtplib's SMTP. Whatever it sends or receives outside of `step` may take `timeout` seconds, as a whole.

    (smtplib's own time-out begins anew with each byte that comes. Here, too, connecting has it for each address of the
    host.) Raises OSError when the time is over.
    """

    file: Any
    sock: Any
    timeout: float
    _end_at: float | None = None

    @contextmanager
    def step(self, longest_s: float) -> Iterator[None]:
        """Limit to this time all that is sent and received inside, together."""
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
        """Whether the last reply both accepts and refuses: RFC 5321, 4.2.1, requires one code in all lines."""
        return b"2" in self.file.digits and len(self.file.digits) > 1

    def docmd(self, cmd: str, args: str = "") -> Reply:
        """Send a command, and return the reply.

        Raises SMTPException if more than the reply to STARTTLS came in the clear: an attacker on the way may have put
        it there, to be mistaken for the reply to an encrypted command (RFC 3207, 6).
        """
        reply = super().docmd(cmd, args)
        if cmd == "STARTTLS" and self.file:
            self.sock.settimeout(self.timeout)  # limits the handshake as a whole
            if self.file.is_ahead:
                self.close()
                raise smtplib.SMTPException("More than the reply to STARTTLS came in the clear: it may be forged.")
        return reply

    def ehlo(self, name: str = "") -> Reply:
        """Say who we are: WEIR_MAIL_EHLO_NAME, or this host."""
        return super().ehlo(name or settings.WEIR_MAIL_EHLO_NAME)

    def helo(self, name: str = "") -> Reply:
        """Do the same for a server that does not know EHLO."""
        return super().helo(name or settings.WEIR_MAIL_EHLO_NAME)

    def login(self, user: str, password: str, **options: Any) -> Reply:
        """Log in by the best mechanism that the server offers. Raises what `auth` does, and SMTPException."""
        return super().login(user, _Utf8(password), **options)  # CRAM-MD5 makes a digest of its bytes

    def auth(self, mechanism: str, authobject: Any, **options: Any) -> Reply:  # noqa: ANN401  as smtplib has them
        """Log in by this mechanism; what is said is in UTF-8 (RFC 4616), which smtplib does not do by itself.

        Raises LoginNotEncodable: Python's own error would show a character of the password.
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
        """Return some bytes from the server, none at the end of the connection."""
        self._set_time_left()
        read: bytes = self.sock.recv(READ_AT_ONCE)
        return read

    def login_by_token(self, user: str, token: str) -> None:
        """Log in by XOAUTH2, as Google and Microsoft describe it. Raises SMTPException, with what the server said."""
        self.ehlo_or_helo_if_needed()
        if "XOAUTH2" not in self.esmtp_features.get("auth", "").upper().split():
            raise smtplib.SMTPNotSupportedError("The mail server offers no AUTH XOAUTH2.")
        challenges: list[bytes] = []

        def answer(challenge: bytes | None = None) -> str:
            if challenge is None:
                return f"user={user}\1auth=Bearer {token}\1\1"
            challenges.append(challenge)  # what is wrong, in JSON; the refusal comes after an empty line
            return ""

        try:
            self.auth("XOAUTH2", answer)
        except smtplib.SMTPAuthenticationError as error:
            said = b" ".join([as_bytes(error.smtp_error), *challenges])
            raise smtplib.SMTPAuthenticationError(error.smtp_code, said) from error

    def _some_step(self) -> AbstractContextManager[None]:
        return self.step(self.timeout) if self._end_at is None else nullcontext()

    def _set_time_left(self) -> None:
        left_s = (self._end_at or 0.0) - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        if self.sock:
            self.sock.settimeout(left_s)


class TlsConnection(SmtpConnection, smtplib.SMTP_SSL):
    """The same with TLS from the first byte."""


class LoginNotEncodable(smtplib.SMTPException):
    """The user or the password contains something that is not a character."""

    def __init__(self) -> None:
        super().__init__("The user or the password has a character that cannot be sent (in UTF-8).")


class _Utf8(str):
    """Text that is encoded in UTF-8, whatever smtplib asks for."""

    __slots__ = ()

    def encode(self, _encoding: str = "", errors: str = "strict") -> bytes:
        return super().encode("utf-8", errors)


class _Replies:
    """The server's lines, as smtplib reads them."""

    def __init__(self, connection: SmtpConnection) -> None:
        self._connection = connection
        self._read = bytearray()
        self._left = LONGEST_REPLY
        self.digits: set[bytes] = set()  # the first ones of the reply's lines

    @property
    def is_ahead(self) -> bool:
        """Whether more has come than was asked for."""
        return bool(self._read)

    def begin(self) -> None:
        """Begin a new reply."""
        self._left = LONGEST_REPLY
        self.digits.clear()

    def readline(self, limit: int) -> bytes:
        """Return the next line, at most `limit` bytes of it; none if the connection ends before the line does."""
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
        """Nothing to close: the connection has the socket."""


def as_bytes(said: bytes | str) -> bytes:
    """Return what smtplib's exceptions call `smtp_error`, which may be either."""
    return said if isinstance(said, bytes) else said.encode()
