"""A mail backend for SMTP that knows whether an e-mail can have been accepted.

For e-mails that are not Weir's, it works as Django's own backend. The final dot decides (RFC 5321, 4.2.5 and 6.1;
RFC 1047). Before the dot, the server has accepted nothing. After the dot, only the server's reply shows whether it has
accepted the e-mail; without a reply, the outcome is unknown.
"""

import re
import smtplib
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from functools import cached_property
from typing import Any, NoReturn

from django.core.mail.backends import smtp
from django.utils.module_loading import import_string

from weir.conf import settings
from weir.workers.mail.message import Message
from weir.workers.mail.phases import Phase
from weir.workers.mail.transports import extensions, mail_server, replies
from weir.workers.mail.transports.base import (
    Accepted,
    BrokenOff,
    CannotTake,
    OutcomeUnknown,
    Refused,
    RelayRefuses,
    Unreachable,
)
from weir.workers.mail.transports.connection import LoginNotEncodable, Reply, SmtpConnection, TlsConnection, as_bytes
from weir.workers.mail.transports.replies import ReplyVerdict, SmtpStep

ENVELOPE = (SmtpStep.MAIL, SmtpStep.RCPT, SmtpStep.DATA)
ACCEPTED = range(200, 300)
GO_AHEAD = 354
_LEADING_DOT = re.compile(rb"^\.", re.MULTILINE)


class EmailBackend(smtp.EmailBackend):
    """Django's SMTP backend, configured by the same EMAIL_* settings and some of Weir's; also a `base.Transport`."""

    key_lifetime: timedelta | None = None
    connection: Any
    _partial_connection: Any
    _has_carried = False  # whether an e-mail was accepted over this connection

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the same arguments as Django's backend. The default time-out is `mail_server.ENTRY_S`."""
        super().__init__(*arguments, **options)
        if self.timeout is None:
            self.timeout = mail_server.ENTRY_S

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as we know."""
        return self.connection is not None

    @property
    def connection_class(self) -> type[SmtpConnection]:
        """The class of the connections, each step of which ends in time."""
        return TlsConnection if self.use_ssl else SmtpConnection

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        """The trusted authorities, and our own certificate. Django's context never has both."""
        context = ssl.create_default_context(cafile=settings.WEIR_MAIL_CA_FILE or None)
        if self.ssl_certfile or self.ssl_keyfile:
            context.load_cert_chain(self.ssl_certfile or "", self.ssl_keyfile)
        return context

    def open(self) -> bool | None:
        """Connect, with TLS and login as the settings say. See the same method of Django's backend."""
        if self.connection:
            return False
        try:
            token = _token(self.username, self.host)
            password, self.password = self.password, "" if token else self.password
            try:
                is_new: bool | None = super().open()
            finally:
                self.password = password
            if is_new and token:
                self.connection.login_by_token(self.username, token)
        except OSError:
            self._abandon()
            if not self.fail_silently:
                raise
            return None
        return is_new

    def connect(self) -> None:
        """Connect, with TLS and login as the settings say. Each step may take EMAIL_TIMEOUT.

        Raises RelayRefuses if the server does not let us in, and Unreachable if it cannot be reached.
        """
        self._has_carried = False
        try:
            self.open()
            self.connection.ehlo_or_helo_if_needed()
            self.connection.set_no_delay()
        except smtplib.SMTPResponseException as error:
            self._abandon()
            said = f"{error.smtp_code} {as_bytes(error.smtp_error).decode(errors='replace')}"
            is_refusal = replies.judge(SmtpStep.ENTRY, error.smtp_code, "") == ReplyVerdict.HELD
            raise (RelayRefuses if is_refusal else Unreachable)(said) from error
        except ssl.SSLCertVerificationError as error:
            self._abandon()
            raise Unreachable(
                f"The certificate of {self.host} is not accepted: {error.verify_message}. WEIR_MAIL_CA_FILE names the "
                "authorities that are trusted, and EMAIL_HOST must be a name in the certificate."
            ) from error
        except LoginNotEncodable as error:
            self._abandon()
            raise Unreachable(str(error)) from error
        except (OSError, ValueError) as error:  # errors of smtplib, TLS and DNS are OSErrors, too
            self._abandon()
            raise Unreachable(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Send QUIT, and close the connection. Errors while closing mean nothing, and are not raised."""
        with suppress(OSError), self._aside():  # whether the last e-mail was accepted is known before
            super().close()

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        """Submit one e-mail over the open connection; see `base.Transport`. `replies` says what replies mean.

        1. Send MAIL, RCPT and DATA; each, with its reply, may take WEIR_MAIL_COMMAND_TIMEOUT. A refusal here is
        certain. 2. Call `begin`. 3. Send the content and the dot, together in WEIR_MAIL_COMMAND_TIMEOUT. 4. Read the
        reply, in WEIR_MAIL_REPLY_TIMEOUT.
        """
        try:
            self._ask_to_send(message)
            begin()
        except (CannotTake, Refused, Unreachable):
            raise
        except OSError as error:
            self._abandon()
            raise BrokenOff(f"{type(error).__name__}: {error}", Phase.NOT_BEGUN) from error
        except BaseException:
            self._abandon()  # the server may wait for content that will not come
            raise
        reply = self._transmit(message.content)
        if self.connection.contradicts_itself:
            self._abandon()
            raise OutcomeUnknown(f"The mail server said both: {_text(reply)}", Phase.AFTER_DOT)
        self._expect(SmtpStep.CONTENT, reply)
        self._has_carried = True
        return Accepted(_text(reply))

    def _transmit(self, content: bytes) -> Reply:
        """Send the content and the dot, and return the reply. Raises BrokenOff and OutcomeUnknown."""
        server, phase = self.connection, Phase.BEFORE_DOT
        try:
            with server.step(settings.WEIR_MAIL_COMMAND_TIMEOUT):
                server.require_silence()
                phase = Phase.AFTER_DOT  # set before, because an exception may come between any two instructions
                try:
                    server.send(_with_dot(content))
                except OSError:
                    phase = Phase.BEFORE_DOT  # the kernel did not take all, so the dot is not on its way
                    raise
            with server.step(settings.WEIR_MAIL_REPLY_TIMEOUT):
                reply: Reply = server.getreply()
        except OSError as error:
            self._abandon()
            reason = f"{type(error).__name__}: {error}"
            raise (OutcomeUnknown if phase == Phase.AFTER_DOT else BrokenOff)(reason, phase) from error
        except BaseException:
            self._abandon()
            raise
        return reply

    def _ask_to_send(self, message: Message) -> None:
        """Go as far as the reply 354, after which the server waits for the content.

        Raises CannotTake, Refused, BrokenOff, Unreachable and RelayRefuses.
        """
        server = self.connection
        try:
            parameters = extensions.parameters(message, server.esmtp_features)
        except extensions.CannotBeTaken as error:  # the reply to EHLO says so
            raise CannotTake(str(error)) from error
        commands = (f"mail FROM:<{message.from_address}>{parameters}", f"rcpt TO:<{message.recipient}>", "data")
        said = self._say_at_once(commands) if server.has_extn("pipelining") else map(self._say, commands)
        is_utf8 = extensions.needs_utf8(message)
        for step, reply in zip(ENVELOPE, said, strict=False):
            self._expect(step, reply, is_utf8=is_utf8)

    def _say(self, command: str) -> Reply:
        with self.connection.step(settings.WEIR_MAIL_COMMAND_TIMEOUT):
            self.connection.send(f"{command}\r\n".encode())
            reply: Reply = self.connection.getreply()
        return reply

    def _say_at_once(self, commands: Sequence[str]) -> list[Reply]:
        """Send the commands together (RFC 2920), and return the replies, up to a refusal after which no reply comes."""
        server, said = self.connection, []
        server.send("".join(f"{command}\r\n" for command in commands).encode())
        for _ in commands:
            try:
                with server.step(settings.WEIR_MAIL_COMMAND_TIMEOUT):
                    said.append(server.getreply())
            except OSError:
                if all(code in ACCEPTED for code, _ in said):
                    raise
                self._abandon()  # the refusal counts (RFC 2920, 3.1); many servers then close the connection
                return said
            if said[-1][0] == replies.CLOSING:
                return said
        if said[-1][0] == GO_AHEAD and any(code not in ACCEPTED for code, _ in said[:-1]):
            self._abandon()  # the server waits for content although it has refused the e-mail
        return said

    def _expect(self, step: SmtpStep, reply: Reply, *, is_utf8: bool = False) -> None:
        """Return if the reply lets us go on; else raise the error for it, with the connection reusable or closed."""
        code, text = reply[0], _text(reply)
        verdict = replies.judge(step, code, reply[1].decode(errors="replace"), is_utf8=is_utf8)
        if verdict == ReplyVerdict.GO_ON:
            return
        if verdict in {ReplyVerdict.LATER, ReplyVerdict.DOMAIN_LATER, ReplyVerdict.NEVER}:
            self._put_in_step(code)
            raise Refused(
                text,
                Phase.AFTER_DOT if step == SmtpStep.CONTENT else Phase.NOT_BEGUN,
                is_permanent=verdict == ReplyVerdict.NEVER,
                slows_domain=verdict == ReplyVerdict.DOMAIN_LATER,
            )
        if verdict in {ReplyVerdict.HELD, ReplyVerdict.DOUBTFUL}:
            if step == SmtpStep.MAIL:
                self.close()
            else:
                self._put_in_step(code)  # the server may accept other e-mails
            is_doubtful = verdict == ReplyVerdict.DOUBTFUL
            raise RelayRefuses(text, knows_sender=True, knows_recipient=step != SmtpStep.MAIL, is_doubtful=is_doubtful)
        self._abandon()
        self._raise_break(step, text, is_away=verdict == ReplyVerdict.AWAY)

    def _raise_break(self, step: SmtpStep, text: str, *, is_away: bool) -> NoReturn:
        """Raise the error for a conversation that is over.

        A server may leave because the connection has carried enough e-mails. If the connection has carried none, the
        server refuses all our e-mails for now or, if it knows the recipient, may refuse the recipient.
        """
        if step == SmtpStep.CONTENT:
            raise OutcomeUnknown(f"The mail server said: {text}", Phase.AFTER_DOT)
        if is_away and not self._has_carried:
            raise Unreachable(text) if step == SmtpStep.MAIL else Refused(text, Phase.NOT_BEGUN, is_permanent=False)
        raise BrokenOff(f"The mail server said: {text}", Phase.NOT_BEGUN)  # another connection may work

    def _put_in_step(self, code: int) -> None:
        """Make the connection ready for the next e-mail, or close it."""
        try:
            if code == replies.CLOSING:
                self._abandon()
            elif self.connection:
                with self._aside():
                    if self.connection.rset()[0] not in ACCEPTED:
                        self._abandon()
        except OSError:
            self._abandon()

    def _aside(self) -> AbstractContextManager[object]:
        """Limit the time of commands that are not about the e-mail, because its outcome is not recorded yet."""
        server = self.connection
        return server.step(min(server.timeout, settings.WEIR_MAIL_COMMAND_TIMEOUT)) if server else nullcontext()

    def _abandon(self) -> None:
        """Close the connection without QUIT."""
        for server in filter(None, (self.connection, self._partial_connection)):
            server.close()
        self.connection = self._partial_connection = None


def _token(user: str, host: str) -> str:
    """Return the access token for a login; "" if no function gives tokens, or no user is set. Raises SMTPException."""
    path = settings.WEIR_MAIL_XOAUTH2_TOKEN
    if not path or not user:
        return ""
    try:
        return str(import_string(path)(user, host))
    except Exception as error:  # an app's code may raise anything
        message = f"{path}, which WEIR_MAIL_XOAUTH2_TOKEN names, gave no token: {type(error).__name__}: {error}"
        raise smtplib.SMTPException(message) from error


def _with_dot(content: bytes) -> bytes:
    """Return the content as it is transmitted (RFC 5321, 4.5.2), and the dot that ends it."""
    doubled = _LEADING_DOT.sub(b"..", content)
    return b"%b%b.\r\n" % (doubled, b"" if doubled.endswith(b"\r\n") else b"\r\n")


def _text(reply: Reply) -> str:
    code, said = reply
    return f"{code} {said.decode(errors='replace')}"
