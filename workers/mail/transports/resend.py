"""Sends through Resend's HTTP API: each e-mail has an idempotency key, so a second request shows what became of it.

The requests, replies and keys are described in https://resend.com/docs/api-reference (emails/send-email, errors,
rate-limit) and https://resend.com/docs/dashboard/emails/idempotency-keys.
"""

import json
import mimetypes
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from pydantic import SecretStr

from weir.conf import settings
from weir.workers.mail.headers.texts import CannotBeWritten
from weir.workers.mail.message import LONGEST_KEY, Attachment, Message
from weir.workers.mail.phases import Phase
from weir.workers.mail.transports import mail_server
from weir.workers.mail.transports.base import Accepted, OutcomeUnknown, Refused, RelayRefuses
from weir.workers.mail.transports.http import ApiConnection, Reply
from weir.workers.mail.transports.http_status import is_about_email, is_about_us, retry_after_s

PATH = "/emails"
LONGEST_QUOTE = 500  # characters of the provider's words that are kept in the e-mail's row
# Errors that concern our account or our sender, whatever the status of the reply is.
_ABOUT_US = frozenset(
    {
        "daily_quota_exceeded",
        "invalid_access",
        "invalid_api_key",
        "invalid_from_address",
        "invalid_region",
        "missing_api_key",
        "monthly_quota_exceeded",
        "rate_limit_exceeded",
        "restricted_api_key",
    }
)
_IN_NAMES = " -'\u2019"  # besides letters and digits
_OTHER_CONTENT = "invalid_idempotent_request"


class ResendTransport:
    """A connection to Resend, or to a server that speaks as Resend does: a `base.Transport`."""

    key_lifetime: timedelta | None = timedelta(hours=24)

    def __init__(self, host: str, port: int, api_key: SecretStr, *, is_tls: bool = True) -> None:
        timeout_s = mail_server.of_settings().timeout_s
        self._connection = ApiConnection(host, port, timeout_s=timeout_s, is_tls=is_tls)
        self._api_key = api_key

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as this side knows."""
        return self._connection.is_open

    def connect(self) -> None:
        """Connect. Raises Unreachable. Resend does not check the API key now, but with each e-mail."""
        self._connection.open()

    def close(self) -> None:
        """Close the connection. Raises nothing."""
        self._connection.close()

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        """Submit one e-mail; see `base.Transport` and `http.ApiConnection.post`."""
        key = message.idempotency_key
        if not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
            raise Refused(f"No idempotency key: {key!r}", Phase.NOT_BEGUN, is_permanent=True)
        headers = {
            "Authorization": f"Bearer {self._api_key.get_secret_value()}",
            "Content-Type": "application/json",
            "Idempotency-Key": key,
            "User-Agent": "Weir",  # Resend refuses requests without a User-Agent
        }
        try:
            body = json.dumps(_request(message)).encode()
        except CannotBeWritten as error:
            raise Refused(str(error), Phase.NOT_BEGUN, is_permanent=True) from error
        timeout_s = settings.WEIR_MAIL_REPLY_TIMEOUT
        reply = self._connection.post(PATH, headers, body, begin, reply_timeout_s=timeout_s)
        try:
            return self._judged(reply)
        except Refused:
            raise
        except RelayRefuses as error:
            if not error.knows_recipient:
                self.close()
            raise
        except BaseException:
            self.close()
            raise

    def _judged(self, reply: Reply) -> Accepted:
        """Return the acceptance of the e-mail; if the reply means anything else, raise the error for that."""
        said = _json_object(reply.body)
        name = str(said.get("name", ""))
        text = self._quoted(f"{reply.status} {name}: {said.get('message', '')}" if name else _raw(reply))
        if reply.status in range(200, 300):
            if isinstance(said.get("id"), str) and said["id"]:
                return Accepted(f"{reply.status} {said['id']}", said["id"])
            raise OutcomeUnknown(f"Resend named no e-mail: {text}", Phase.AFTER_DOT)
        if name == _OTHER_CONTENT:
            explained = "another e-mail was sent with the same idempotency key in the last 24 hours"
            raise OutcomeUnknown(f"Resend said: {text} ({explained})", Phase.AFTER_DOT)
        if is_about_us(reply.status) or (name in _ABOUT_US and reply.status in range(400, 500)):
            raise RelayRefuses(f"Resend said: {text}", retry_after_s(reply.headers.get("Retry-After")))
        if is_about_email(reply.status) and not name:  # not Resend's own reply, so it may concern every e-mail
            raise RelayRefuses(f"A server before Resend said: {text}", knows_recipient=True, is_doubtful=True)
        if is_about_email(reply.status):
            raise Refused(f"Resend said: {text}", Phase.NOT_BEGUN, is_permanent=True)
        # So is 409: an earlier attempt with this key is still in flight, and may be accepted in the end.
        raise OutcomeUnknown(f"Resend said: {text}", Phase.AFTER_DOT)

    def _quoted(self, text: str) -> str:
        """Return a provider's words on one line, with LONGEST_QUOTE characters at most, and without our API key."""
        return " ".join(text.replace(self._api_key.get_secret_value(), "***").split())[:LONGEST_QUOTE]


def _request(message: Message) -> dict[str, Any]:
    """Return the e-mail as Resend takes it. It has no date, because Resend writes its own."""
    parts = message.parts()
    files = [*map(_file, parts.attachments), *(_form(*form) for form in parts.alternatives)]
    fields = {
        "from": parts.sender,
        "to": [_with_name(parts.to, message.recipient)],
        "reply_to": parts.reply_to,
        "subject": parts.subject,
        "text": parts.text,
        "html": parts.html,
        "headers": {name: value for name, value in parts.headers.items() if name.lower() != "date"},
        "attachments": files,
    }
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def _with_name(told: Sequence[str], recipient: str) -> str:
    """Return the recipient with the name in the header, if the name needs no quotes, which Resend may refuse."""
    name, _, address = told[0].rpartition(" <") if len(told) == 1 else ("", "", "")
    is_plain = all(letter.isalnum() or letter in _IN_NAMES for letter in name)
    return told[0] if name and is_plain and address == f"{recipient}>" else recipient


def _file(attachment: Attachment) -> dict[str, str]:
    """Return an attachment as Resend takes it.

    Resend silently drops e-mails with a file that has no name, or whose name implies another type (as django-anymail
    has found). So each file gets a name, and the type is sent only if the name implies the same type or none.
    """
    suffix = mimetypes.guess_extension(attachment.content_type) or ".bin"
    name = attachment.filename or f"attachment{suffix}"
    file = {"filename": name, "content": b64encode(attachment.content).decode()}
    if mimetypes.guess_type(name)[0] in {None, attachment.content_type}:
        file["content_type"] = attachment.content_type
    if attachment.content_id:
        file["content_id"] = attachment.content_id
    return file


def _form(text: str, content_type: str) -> dict[str, str]:
    """Return a further form of the text as a file, because Resend has no field for it."""
    name = f"attachment{mimetypes.guess_extension(content_type) or '.txt'}"
    return {"filename": name, "content": b64encode(text.encode()).decode(), "content_type": content_type}


def _json_object(body: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
        if isinstance(found, dict):
            return found
    return {}


def _raw(reply: Reply) -> str:
    return f"{reply.status} {reply.body[:LONGEST_QUOTE].decode(errors='replace')}"
