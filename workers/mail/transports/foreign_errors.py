"""Decides what an error of a mail backend that is not Weir's says for certain about the e-mail.

The errors of smtplib and of django-anymail are known. Errors of HTTP clients are recognised by the status of the reply,
and by the names of the errors for a connection that was never made. If an error has none of these, the e-mail may have
been accepted. An error is about the last step of a backend. So a backend may repeat a request by itself only if nothing
was accepted, as HTTP clients do with POST unless they are told otherwise.
"""

import smtplib
from collections.abc import Iterator

from weir.workers.mail.phases import Phase
from weir.workers.mail.transports import replies
from weir.workers.mail.transports.base import OutcomeUnknown, Refused, RelayRefuses, Unreachable
from weir.workers.mail.transports.connection import as_bytes
from weir.workers.mail.transports.http_status import is_about_email, is_about_us, retry_after_s

LONGEST_TEXT = 1_000  # characters of an error's text, which goes into the e-mail's row
_REFUSALS = range(400, 600)  # RFC 5321, 4.2.1
# django-anymail raises these errors before a request, or if the provider refuses all recipients.
_ANYMAIL_REFUSED = frozenset(
    {
        "AnymailInvalidAddress",
        "AnymailRecipientsRefused",
        "AnymailSerializationError",
        "AnymailUnsupportedFeature",
    }
)
# Errors of HTTP clients for a connection that was never made, so that no request was written.
_NEVER_CONNECTED = frozenset(
    {
        ("urllib3", "NewConnectionError"),
        ("urllib3", "ConnectTimeoutError"),
        ("requests", "ConnectTimeout"),
        ("httpx", "ConnectError"),
        ("httpx", "ConnectTimeout"),
        ("aiohttp", "ClientConnectorError"),
    }
)

Verdict = Unreachable | Refused | OutcomeUnknown


def reason(error: BaseException) -> str:
    """Return the error's name and text for the e-mail's row, LONGEST_TEXT characters at most."""
    return f"{type(error).__name__}: {error}"[:LONGEST_TEXT]


def verdict(error: BaseException) -> Verdict:
    """Return what a backend's error says about the e-mail that the backend was given."""
    if isinstance(error, RelayRefuses):  # Weir's own: the backend is the outbox
        return error
    text = reason(error)
    for cause in _chain(error):
        if found := _of_smtp(cause, text) or _of_names(cause, text) or _of_status(cause, text):
            return found
    return OutcomeUnknown(text, Phase.BEGUN)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and the errors that it names as its causes.

    `__context__` does not count. It is an error that was being handled, such as the refusal of a first attempt before
    a second one.
    """
    seen: list[BaseException] = []
    found: object = error
    while isinstance(found, BaseException) and not any(found is each for each in seen):
        seen.append(found)
        yield found
        inside = [found.__cause__, getattr(found, "reason", None), *found.args[:1]]
        found = next((each for each in inside if isinstance(each, BaseException)), None)


def _of_smtp(error: BaseException, text: str) -> Verdict | None:
    """Judge smtplib's errors. SMTPServerDisconnected says nothing, because it is the same before and after the dot."""
    match error:
        case smtplib.SMTPRecipientsRefused():
            [(code, said)] = [*error.recipients.values()][:1] or [(0, b"")]
            return _refused(replies.SmtpStep.RCPT, code, said, text)
        case smtplib.SMTPSenderRefused():
            return _refused(replies.SmtpStep.MAIL, error.smtp_code, error.smtp_error, text) or RelayRefuses(text)
        case smtplib.SMTPHeloError() | smtplib.SMTPAuthenticationError():
            return RelayRefuses(text)  # the server would refuse any e-mail
        case smtplib.SMTPDataError():
            return _refused(replies.SmtpStep.CONTENT, error.smtp_code, error.smtp_error, text)
        case smtplib.SMTPNotSupportedError():  # raised before MAIL is said
            return Refused(text, Phase.NOT_BEGUN, is_permanent=True)
    return None


def _refused(step: replies.SmtpStep, code: int, said: bytes | str, text: str) -> RelayRefuses | Refused | None:
    if code not in _REFUSALS:
        return None  # the reply is not a refusal, although smtplib takes it for one
    meant = replies.judge(step, code, as_bytes(said).decode(errors="replace"))
    of_email = {replies.ReplyVerdict.LATER, replies.ReplyVerdict.DOMAIN_LATER, replies.ReplyVerdict.NEVER}
    is_doubtful = meant == replies.ReplyVerdict.DOUBTFUL
    if is_doubtful or meant == replies.ReplyVerdict.HELD or (step == replies.SmtpStep.MAIL and meant not in of_email):
        return RelayRefuses(text, knows_recipient=step != replies.SmtpStep.MAIL, is_doubtful=is_doubtful)
    return Refused(
        text,
        Phase.AFTER_DOT if step == replies.SmtpStep.CONTENT else Phase.NOT_BEGUN,
        is_permanent=meant == replies.ReplyVerdict.NEVER,
        slows_domain=meant == replies.ReplyVerdict.DOMAIN_LATER,
    )


def _of_names(error: BaseException, text: str) -> Verdict | None:
    names = {(each.__module__.partition(".")[0], each.__name__) for each in type(error).__mro__}
    if any(library == "anymail" and name in _ANYMAIL_REFUSED for library, name in names):
        return Refused(text, Phase.NOT_BEGUN, is_permanent=True)
    return Unreachable(text) if names & _NEVER_CONNECTED else None


def _of_status(error: BaseException, text: str) -> Verdict | None:
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    if not isinstance(status, int):
        return None
    if is_about_us(status):
        headers = getattr(response, "headers", None)
        return RelayRefuses(text, retry_after_s(headers.get("Retry-After") if headers else None))
    return Refused(text, Phase.NOT_BEGUN, is_permanent=True) if is_about_email(status) else None
