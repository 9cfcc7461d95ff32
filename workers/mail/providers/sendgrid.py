"""SendGrid's Event Webhook: https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event.

It is signed by ECDSA (.../getting-started-event-webhook-security-features), and has several events in a request.
SendGrid names an e-mail that came by SMTP by its Message-ID, and one of django-anymail by the id that anymail made.
"""

import base64
import binascii
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from weir.conf import secrets
from weir.conf.secrets import SecretUnusable
from weir.workers.mail.bounces.reports import BounceReport, ReportAction
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

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

# A request that was not answered by 2xx comes again for a day, and it is not documented whether it is signed anew.
TOLERATED: Final = timedelta(hours=25)
SIGNATURE: Final = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP: Final = "X-Twilio-Email-Event-Webhook-Timestamp"
ACTIONS: Final = {
    "processed": ReportAction.ACCEPTED,
    "delivered": ReportAction.DELIVERED,
    "deferred": ReportAction.DELAYED,
    "bounce": ReportAction.FAILED,
    "dropped": ReportAction.FAILED,
    "spamreport": ReportAction.COMPLAINED,
}


def keys(name: str) -> "list[EllipticCurvePublicKey]":
    """Return the verification keys in this secret. Raises SecretUnknown and SecretUnusable."""
    texts = secrets.keys(name)
    try:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey  # noqa: PLC0415  see below
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  only SendGrid's users need it
            load_der_public_key,
        )
    except ModuleNotFoundError:
        said = f"the secret {name} cannot be used: SendGrid's signatures need cryptography, "
        raise SecretUnusable(f"{said}install django-weir[signatures]") from None
    try:
        found = [load_der_public_key(base64.b64decode(text, validate=True)) for text in texts]
    except Exception:  # noqa: BLE001  ValueError, or an error of the package; each may quote the text
        found = []
    keys = [key for key in found if isinstance(key, EllipticCurvePublicKey)]
    if not keys or len(keys) < len(texts):
        raise SecretUnusable(f"the secret {name} must have the verification key of SendGrid's Signed Event Webhook")
    return keys


def read(keys: "list[EllipticCurvePublicKey]", received: Received) -> ProviderEvents:
    """Return what SendGrid reports. Raises Unsigned and Unreadable."""
    signed_at = received.headers.get(TIMESTAMP, "")
    if not _is_signed(keys, received, signed_at) or not is_recent(signed_at, received.now, TOLERATED):
        raise Unsigned
    events = parsed(received.body)
    if not isinstance(events, list):
        raise Unreadable("the body is not a list of events")
    found = [one for event in events if (one := _report(event))]
    return ProviderEvents(found, ignored=len(events) - len(found))


def _report(event: object) -> BounceReport | None:
    action = ACTIONS.get(text(event, "event"))
    if action is None:
        return None
    return report(
        action,
        (text(event, "smtp-id"), text(event, "anymail_id")),
        text(event, "email"),
        at(event, "timestamp"),
        status=text(event, "status"),
        diagnostic=text(event, "reason"),
    )


def _is_signed(keys: "list[EllipticCurvePublicKey]", received: Received, signed_at: str) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  only SendGrid's users need it
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA  # noqa: PLC0415  as above
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415  as above

    try:
        signature = base64.b64decode(received.headers.get(SIGNATURE, ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    for key in keys:
        try:
            key.verify(signature, signed_at.encode() + received.body, ECDSA(SHA256()))
        except InvalidSignature:
            continue
        return True
    return False
