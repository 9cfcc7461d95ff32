"""What is transmitted of each e-mail, as it is stored: written once, and read before each attempt."""

import hashlib

from workers.mail.addresses import from_address
from workers.mail.message import LONGEST_KEY, Message
from workers.mail.models import Email, Rendering
from workers.mail.rendering import Rendered

# The fields of an e-mail that `note` sets.
NOTED = ("recipient", "renderings", "subject", "content_hash", "content_size")


def note(email: Email, rendered: Rendered) -> None:
    """Set, in memory, what the e-mail's row says about its rendering."""
    email.renderings += 1
    email.recipient = rendered.recipient
    email.subject = rendered.subject
    email.content_hash = rendered.content_hash
    email.content_size = len(rendered.content)


def store(email: Email, rendered: Rendered) -> Rendering:
    """Write what is transmitted of the e-mail, in the caller's transaction."""
    rendering: Rendering = Rendering.objects.create(email=email, content=rendered.content)
    return rendering


def message(email: Email, rendering: Rendering) -> Message:
    """Return what is transmitted; bounces go to the address that DEFAULT_FROM_EMAIL has now. Raises CannotBeWritten."""
    return Message(
        from_address=from_address(),
        recipient=email.recipient,
        content=bytes(rendering.content),
        idempotency_key=_key(email),
    )


def _key(email: Email) -> str:
    """Return the key of this content, until a provider has accepted it: what is ordered after that is to be sent."""
    key = f"{email.message_id.strip('<>')}/{email.renderings}"
    if email.provider_id:
        key = f"{key}/{_sha256(email.provider_id)[:12]}"
    return key if len(key) <= LONGEST_KEY else _sha256(key)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
