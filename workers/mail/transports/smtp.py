"""A mail backend for SMTP that knows whether an e-mail can have been accepted.

For all other e-mails it is Django's own. The final dot decides (RFC 5321, 4.2.5 and 6.1; RFC 1047): before it nothing
is accepted; once it is out, only the server's reply tells, and without a reply the outcome is unknown.
"""

import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.mail.backends import smtp

from workers.mail.message import Message
from workers.mail.phases import Phase
from workers.mail.transports.base import Accepted, BrokenOff, OutcomeUnknown, Refused, Unreachable

GO_AHEAD = range(354, 355)
ACCEPTED = range(200, 300)
REFUSED = range(400, 600)
STEPS = {"mail": ACCEPTED, "rcpt": ACCEPTED, "data": GO_AHEAD}  # and the replies that let us go on
CLOSING = 421
OUT_OF_STEP = 503  # the conversation is to blame, not the e-mail
AUTHENTICATION = frozenset({530, 534, 535, 538})  # RFC 4954: in reply to MAIL, our login is refused, not the e-mail
Reply = tuple[int, bytes]
_LEADING_DOT = re.compile(rb"^\.", re.MULTILINE)


class EmailBackend(smtp.EmailBackend):
    """Django's SMTP backend, set by the same EMAIL_* settings, and a `base.Transport`."""

    key_lifetime: timedelta | None = None
    connection: Any
    _partial_connection: Any

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as we know."""
        return self.connection is not None

    def connect(self) -> None:
        """Connect, with TLS and login as the settings say. Raises Unreachable."""
        try:
            self.open()
            self.connection.ehlo_or_helo_if_needed()
        except OSError as error:  # smtplib's exceptions are OSErrors, and so are those of ssl and of DNS
            self._abandon()
            raise Unreachable(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Say QUIT and close the connection. Errors of that mean nothing, and are not raised."""
        with suppress(OSError):  # by then it is known whether an e-mail was accepted
            super().close()

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        """Submit one e-mail over the open connection; see `base.Transport`.

        1. MAIL, RCPT, DATA: refusals are certain. 2. `begin`. 3. The content. 4. The dot. 5. The reply, for which the
        mail server has WEIR_MAIL_REPLY_TIMEOUT.
        """
        try:
            self._ask_to_send(message)
            begin()
        except Refused:
            raise
        except OSError as error:
            self._abandon()
            raise BrokenOff(f"{type(error).__name__}: {error}", Phase.NOT_BEGUN) from error
        except BaseException:
            self._abandon()  # it may wait for content that will not come
            raise
        code, said = self._transmit(message.content)
        if code in ACCEPTED:
            return Accepted(_text(code, said))
        if code in REFUSED:
            raise self._refusal(code, said, Phase.AFTER_DOT)
        self._abandon()
        raise OutcomeUnknown(f"The mail server said: {_text(code, said)}", Phase.AFTER_DOT)

    def _transmit(self, content: bytes) -> Reply:
        """Send the content and the dot, and return the reply. Raises BrokenOff and OutcomeUnknown."""
        server, phase = self.connection, Phase.BEFORE_DOT
        try:
            server.send(_with_dots_doubled(content))
            phase = Phase.AFTER_DOT  # noted first: an exception may come between any two instructions
            try:
                server.send(b".\r\n")
            except OSError:
                phase = Phase.BEFORE_DOT  # it is not on its way: the kernel did not take it
                raise
            server.sock.settimeout(settings.WEIR_MAIL_REPLY_TIMEOUT)
            reply: Reply = server.getreply()
            server.sock.settimeout(self.timeout)
        except OSError as error:
            self._abandon()
            reason = f"{type(error).__name__}: {error}"
            raise (OutcomeUnknown if phase == Phase.AFTER_DOT else BrokenOff)(reason, phase) from error
        except BaseException:
            self._abandon()
            raise
        return reply

    def _ask_to_send(self, message: Message) -> None:
        """Go as far as the server's 354, after which it waits for the content.

        Raises Refused, BrokenOff and Unreachable.
        """
        server = self.connection
        server.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # the dot must not wait for an ACK
        options = f" size={len(message.content)}" if server.has_extn("size") else ""
        options += " body=8bitmime" if server.has_extn("8bitmime") else ""
        commands = (f"mail FROM:<{message.from_address}>{options}", f"rcpt TO:<{message.recipient}>", "data")
        replies = self._say_at_once(commands) if server.has_extn("pipelining") else map(server.docmd, commands)
        for step, reply in zip(STEPS, replies, strict=False):
            self._expect(step, reply)

    def _say_at_once(self, commands: Sequence[str]) -> list[Reply]:
        """Send the commands at once (RFC 2920), and return the replies."""
        server, replies = self.connection, []
        server.send("".join(f"{command}\r\n" for command in commands))
        for _ in commands:
            replies.append(server.getreply())
            if replies[-1][0] == CLOSING:
                return replies
        if replies[-1][0] in GO_AHEAD and any(code not in ACCEPTED for code, _ in replies[:-1]):
            self._abandon()  # it waits for content although it has refused the recipient
        return replies

    def _expect(self, step: str, reply: Reply) -> None:
        code, said = reply
        if step == "mail" and code in AUTHENTICATION:
            raise Unreachable(f"The mail server said: {_text(code, said)}")
        if code in REFUSED and code != OUT_OF_STEP:
            raise self._refusal(code, said, Phase.NOT_BEGUN)
        if code not in STEPS[step]:
            self._abandon()
            raise BrokenOff(f"The mail server said: {_text(code, said)}", Phase.NOT_BEGUN)

    def _refusal(self, code: int, said: bytes, phase: Phase) -> Refused:
        """Return the refusal; the connection is ready for the next e-mail, or closed."""
        try:
            if self.connection and (code == CLOSING or self.connection.rset()[0] not in ACCEPTED):
                self._abandon()
        except OSError:
            self._abandon()
        return Refused(_text(code, said), phase, is_permanent=code >= 500)  # noqa: PLR2004  RFC 5321, 4.2.1

    def _abandon(self) -> None:
        """Close the connection without QUIT."""
        for server in filter(None, (self.connection, self._partial_connection)):
            server.close()
        self.connection = self._partial_connection = None


def _with_dots_doubled(content: bytes) -> bytes:
    """Return the content as it is transmitted (RFC 5321, 4.5.2), ending with a line break."""
    doubled = _LEADING_DOT.sub(b"..", content)
    return doubled if doubled.endswith(b"\r\n") else doubled + b"\r\n"


def _text(code: int, said: bytes) -> str:
    return f"{code} {said.decode(errors='replace')}"
