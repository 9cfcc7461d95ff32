"""Postmark's webhooks: https://postmarkapp.com/developer/webhooks/webhooks-overview, and the pages on events beside it.

They are not signed: the URL that Postmark is given has a user and a password (Basic authentication, RFC 7617). So a
request counts whatever its age. Postmark names an e-mail by the id that its reply to the request had.
"""

import base64
import binascii
import hmac
from typing import Final

from weir.conf import secrets
from weir.conf.secrets import SecretUnusable
from weir.workers.mail.bounces.reports import ReportAction
from weir.workers.mail.providers.received import ProviderEvents, Received, Unsigned, at, parsed, report, text

SHORTEST_KEY: Final = 20  # characters of user, colon and password
ACTIONS: Final = {
    "Delivery": ReportAction.DELIVERED,
    "Bounce": ReportAction.FAILED,
    "SpamComplaint": ReportAction.COMPLAINED,
}
# Types of bounces. All others, such as an automatic answer or a change of address, are no failure.
BOUNCES: Final = {
    "Transient": ReportAction.DELAYED,
    "DnsError": ReportAction.DELAYED,
    **dict.fromkeys(
        ("HardBounce", "SoftBounce", "BadEmailAddress", "Blocked", "DMARCPolicy", "SMTPApiError", "VirusNotification"),
        ReportAction.FAILED,
    ),
}


def keys(name: str) -> list[bytes]:
    """Return each USER:PASSWORD in this secret. Raises SecretUnusable."""
    found = [key.encode() for key in secrets.keys(name)]
    if not all(b":" in key and len(key) >= SHORTEST_KEY for key in found):
        raise SecretUnusable(f"the secret {name} must have USER:PASSWORD, with {SHORTEST_KEY} characters or more")
    return found


def read(keys: list[bytes], received: Received) -> ProviderEvents:
    """Return what Postmark reports. Raises Unsigned and Unreadable."""
    given = _login(received.headers.get("Authorization", ""))
    fits = [hmac.compare_digest(given, key) for key in keys]
    if not any(fits):
        raise Unsigned
    event = parsed(received.body)
    action = ACTIONS.get(text(event, "RecordType"))
    if action is ReportAction.FAILED:
        action = BOUNCES.get(text(event, "Type"))
    if action is None:
        return ProviderEvents([], ignored=1)
    found = report(
        action,
        (text(event, "MessageID"),),
        text(event, "Recipient") or text(event, "Email"),
        at(event, "DeliveredAt") or at(event, "BouncedAt"),
        diagnostic=text(event, "Details") or text(event, "Description"),
    )
    return ProviderEvents([found])


def _login(header: str) -> bytes:
    scheme, _, encoded = header.partition(" ")
    try:
        return base64.b64decode(encoded, validate=True) if scheme.lower() == "basic" else b""
    except (binascii.Error, ValueError):
        return b""
