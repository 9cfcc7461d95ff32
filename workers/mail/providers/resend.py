"""Resend's webhooks: https://resend.com/docs/webhooks/verify-webhooks-requests, and the pages on events beside it.

They are signed as Standard Webhooks has it, under the older names of the headers, `svix-...`. Resend names an e-mail by
the id that its reply to the request had. Where it repeats the headers of the e-mail, the Message-ID is among them.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from weir.signatures.webhooks import WebhookSigner, signer
from weir.workers.mail.bounces.reports import ReportAction
from weir.workers.mail.providers.received import (
    ProviderEvents,
    Received,
    Unsigned,
    at,
    is_recent,
    parsed,
    report,
    text,
)

TOLERATED: Final = timedelta(minutes=5)  # as Standard Webhooks has it: each repetition is signed anew
MOST_HEADERS: Final = 100
ACTIONS: Final = {
    "email.sent": ReportAction.ACCEPTED,
    "email.delivered": ReportAction.DELIVERED,
    "email.delivery_delayed": ReportAction.DELAYED,
    "email.bounced": ReportAction.FAILED,
    "email.failed": ReportAction.FAILED,
    "email.suppressed": ReportAction.FAILED,
    "email.complained": ReportAction.COMPLAINED,
}
NO_SUCH_ADDRESS: Final = {"NoEmail": "5.1.1"}  # subtypes of bounces that say what a status says

keys = signer


def read(keys: WebhookSigner, received: Received) -> ProviderEvents:
    """Return what Resend reports. Raises Unsigned and Unreadable."""
    identity, signed_at, signatures = (_header(received, name) for name in ("id", "timestamp", "signature"))
    is_signed = keys.has_signed(signatures, identity, signed_at, received.body)
    if not is_signed or not is_recent(signed_at, received.now, TOLERATED):
        raise Unsigned
    event = parsed(received.body)
    action = ACTIONS.get(text(event, "type"))
    if action is None:
        return ProviderEvents([], ignored=1)
    found = report(
        action,
        tuple(_names(at(event, "data"))),
        _recipient(at(event, "data", "to")),
        at(event, "created_at"),
        status=NO_SUCH_ADDRESS.get(text(event, "data", "bounce", "subType"), ""),
        diagnostic=_diagnostic(at(event, "data")),
    )
    return ProviderEvents([found])


def _header(received: Received, name: str) -> str:
    return received.headers.get(f"svix-{name}") or received.headers.get(f"webhook-{name}") or ""


def _names(data: object) -> Iterator[str]:
    yield text(data, "email_id")
    headers = at(data, "headers")
    for header in headers[:MOST_HEADERS] if isinstance(headers, list) else []:
        if text(header, "name").lower() == "message-id":
            yield text(header, "value")


def _recipient(to: object) -> str:
    """Return the only recipient, as each of our e-mails has one."""
    return to[0] if isinstance(to, list) and len(to) == 1 and isinstance(to[0], str) else ""


def _diagnostic(data: object) -> str:
    """Return the refusing server's words if Resend repeats them, or else Resend's own."""
    codes = at(data, "bounce", "diagnosticCode")
    if isinstance(codes, list) and codes and isinstance(codes[0], str):
        return codes[0].removeprefix("smtp;").strip()
    places = (("bounce", "message"), ("suppressed", "message"), ("failed", "reason"))
    return next(filter(None, (text(data, *place) for place in places)), "")
