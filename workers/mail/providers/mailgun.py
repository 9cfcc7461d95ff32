"""Mailgun's webhooks: https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhooks, and pages below.

The signature is in the body. It covers a time and a random token, but not the event: whoever has seen a request may
make another one until it is too old. TLS alone keeps requests from being seen. Mailgun names an e-mail by its
Message-ID, which it leaves unchanged.
"""

import hmac
from datetime import timedelta
from typing import Final

from weir.conf import secrets
from weir.conf.secrets import SecretUnusable
from weir.workers.mail.bounces.reports import ReportAction
from weir.workers.mail.providers.received import (
    ProviderEvents,
    Received,
    Unreadable,
    Unsigned,
    at,
    is_recent,
    parsed,
    report,
    text,
)

# A request that was not answered by 200 comes again for eight hours; whether it is signed anew is not documented.
TOLERATED: Final = timedelta(hours=12)
SHORTEST_KEY: Final = 16  # characters
ACTIONS: Final = {
    "accepted": ReportAction.ACCEPTED,
    "delivered": ReportAction.DELIVERED,
    "failed": ReportAction.FAILED,
    "rejected": ReportAction.FAILED,
    "complained": ReportAction.COMPLAINED,
}


def keys(name: str) -> list[bytes]:
    """Return the signing keys in this secret. Raises SecretUnusable."""
    found = [key.encode() for key in secrets.keys(name)]
    if any(len(key) < SHORTEST_KEY for key in found):
        raise SecretUnusable(f"the secret {name} must have Mailgun's HTTP webhook signing key")
    return found


def read(keys: list[bytes], received: Received) -> ProviderEvents:
    """Return what Mailgun reports. Raises Unsigned and Unreadable."""
    said = _signed(keys, received)
    event = at(said, "event-data")
    action = ACTIONS.get(text(event, "event"))
    if action is None:
        return ProviderEvents([], ignored=1)
    if action is ReportAction.FAILED and text(event, "severity") == "temporary":
        action = ReportAction.DELAYED
    found = report(
        action,
        (text(event, "message", "headers", "message-id"),),
        text(event, "recipient"),
        at(event, "timestamp"),
        status=text(event, "delivery-status", "enhanced-code"),
        diagnostic=text(event, "delivery-status", "message")
        or text(event, "delivery-status", "description")
        or text(event, "reject", "reason"),
    )
    return ProviderEvents([found])


def _signed(keys: list[bytes], received: Received) -> object:
    """Return the JSON of the body. Raises Unsigned."""
    try:
        said = parsed(received.body)
    except Unreadable as error:
        raise Unsigned from error
    signed_at, token = text(said, "signature", "timestamp"), text(said, "signature", "token")
    given = [text(said, "signature", name).encode() for name in ("signature", "parent-signature")]
    wanted = [hmac.digest(key, f"{signed_at}{token}".encode(), "sha256").hex().encode() for key in keys]
    is_signed = any(hmac.compare_digest(one, each) for one in given for each in wanted)
    if not token or not is_signed or not is_recent(signed_at, received.now, TOLERATED):
        raise Unsigned
    return said
