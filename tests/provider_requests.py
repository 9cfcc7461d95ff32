"""Requests to the URLs of providers' webhooks, in the form that each provider documents, signed as it signs.

Resend's signatures are made by the package of Standard Webhooks, SendGrid's by a private key of which Weir knows the
public one. The tests of `tests/unit/mail/providers` have django-anymail read the same bodies.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from standardwebhooks import Webhook

WHSEC = f"whsec_{base64.b64encode(bytes(range(24))).decode()}"
MAILGUN_KEY = "0123456789abcdef0123456789abcdef"
LOGIN = "weir:a-password-of-postmark"
NO_SUCH_USER = "550 5.1.1 No such user"


class ProviderRequest(NamedTuple):
    """What a provider sends."""

    body: bytes
    headers: Mapping[str, str]


@cache
def sendgrid_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def secrets() -> dict[str, str]:
    """Return the secrets by which the requests below are recognised; each has another key, too."""
    public = sendgrid_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return {
        "RESEND_WEBHOOK": f"whsec_{'A' * 43}= {WHSEC}",
        "MAILGUN_WEBHOOK": f"another-key-of-mailgun {MAILGUN_KEY}",
        "POSTMARK_WEBHOOK": f"old:a-password-of-postmark\n{LOGIN}",
        "SENDGRID_WEBHOOK": base64.b64encode(public).decode(),
    }


def signed(provider: str, body: bytes, at: datetime) -> ProviderRequest:
    """Return a request with this body, signed at this time. Of Mailgun's body, the signature is part."""
    return ProviderRequest(body, _SIGNATURES[provider](body, at) if provider in _SIGNATURES else {})


def event(
    provider: str,
    what: str,
    *,
    name: str,
    to: str,
    at: datetime,
    said: str = NO_SUCH_USER,
    signed_at: datetime | None = None,
) -> ProviderRequest:
    """Return a signed request that says this of an e-mail, which the provider knows by this name."""
    body = json.dumps(BODIES[provider](what, name, to, at, said)).encode()
    if provider == "mailgun":
        body = json.dumps(json.loads(body) | {"signature": mailgun_signature(signed_at or at)}).encode()
    return signed(provider, body, signed_at or at)


def _resend(what: str, name: str, to: str, at: datetime, said: str) -> dict[str, Any]:
    kind = {"failed": "bounced", "delayed": "delivery_delayed", "accepted": "sent"}.get(what, what)
    data = {"email_id": name, "from": "The Shop <orders@shop.example>", "to": [to], "subject": "Your order"}
    bounce = {"bounce": {"message": said, "type": "Permanent", "subType": "General"}} if what == "failed" else {}
    created = at.isoformat().replace("+00:00", "Z")
    return {"type": f"email.{kind}", "created_at": created, "data": {**data, "created_at": created, **bounce}}


def _mailgun(what: str, name: str, to: str, at: datetime, said: str) -> dict[str, Any]:
    kind = {"delayed": "failed"}.get(what, what)
    severity = {"failed": "permanent", "delayed": "temporary"}.get(what)
    status = {"delivery-status": {"code": 550, "message": said, "attempt-no": 1}, "severity": severity}
    message = {"headers": {"message-id": name.strip("<>"), "to": to, "subject": "Your order"}}
    found = {"event": kind, "id": "ev", "timestamp": at.timestamp(), "recipient": to, "message": message}
    return {"event-data": found | (status if severity else {})}


def _postmark(what: str, name: str, to: str, at: datetime, said: str) -> dict[str, Any]:
    when = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "1Z"  # seven digits
    about = {"MessageID": name, "Tag": "orders", "ServerID": 23}
    if what == "delivered":
        return {"RecordType": "Delivery", "Recipient": to, "DeliveredAt": when, "Details": "250 ok", **about}
    if what == "complained":
        return {"RecordType": "SpamComplaint", "Type": "SpamComplaint", "Email": to, "BouncedAt": when, **about}
    kind = {"failed": "HardBounce", "delayed": "Transient"}.get(what, "AutoResponder")
    return {"RecordType": "Bounce", "Type": kind, "Email": to, "BouncedAt": when, "Details": f"smtp;{said}", **about}


def _sendgrid(what: str, name: str, to: str, at: datetime, said: str) -> list[dict[str, Any]]:
    kind = {"failed": "bounce", "delayed": "deferred", "accepted": "processed", "complained": "spamreport"}.get(
        what, what
    )
    about = {"email": to, "timestamp": int(at.timestamp()), "smtp-id": name, "sg_event_id": f"ev-{what}"}
    status = {"status": "5.1.1", "reason": said, "type": "bounce"} if what == "failed" else {}
    return [{"event": "open", **about}, {"event": kind, **about, **status}]


def mailgun_signature(at: datetime, key: str = MAILGUN_KEY) -> dict[str, str]:
    signed_at, token = str(int(at.timestamp())), "0123456789" * 5
    signature = hmac.new(key.encode(), f"{signed_at}{token}".encode(), hashlib.sha256).hexdigest()
    return {"timestamp": signed_at, "token": token, "signature": signature}


def _by_standard_webhooks(body: bytes, at: datetime) -> dict[str, str]:
    signature = Webhook(WHSEC).sign(msg_id="msg_1", timestamp=at, data=body.decode("latin-1"))
    other = f"v1,{base64.b64encode(bytes(32)).decode()}"
    signed_at = str(int(at.timestamp()))
    return {"svix-id": "msg_1", "svix-timestamp": signed_at, "svix-signature": f"{other} {signature}"}


def _by_ecdsa(body: bytes, at: datetime) -> dict[str, str]:
    signed_at = str(int(at.timestamp()))
    signature = sendgrid_key().sign(signed_at.encode() + body, ec.ECDSA(SHA256()))
    return {
        "X-Twilio-Email-Event-Webhook-Signature": base64.b64encode(signature).decode(),
        "X-Twilio-Email-Event-Webhook-Timestamp": signed_at,
    }


def _by_login(_body: bytes, _at: datetime) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(LOGIN.encode()).decode()}"}


BODIES = {"resend": _resend, "mailgun": _mailgun, "postmark": _postmark, "sendgrid": _sendgrid}
_SIGNATURES = {"resend": _by_standard_webhooks, "postmark": _by_login, "sendgrid": _by_ecdsa}
