"""Stores the rendering of each e-mail, reads it before each attempt, and makes the e-mail's envelope sender.

Delivery reports come back to the envelope sender, which is one address for all e-mails, or one for each. If each e-mail
has an address of its own, that address names the e-mail, whatever a provider does to the Message-ID, and whatever a
report returns. Anyone may write to such an address. So it contains a code that only this installation can make, from
the e-mail's id and recipient. The recipient is included because an e-mail may be resent to another recipient, and the
first recipient must not be able to report about that.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from hmac import compare_digest

from django.conf import settings
from django.utils.crypto import salted_hmac

from weir.conf import settings as weir_settings
from weir.postgres.statements import Statement
from weir.workers.mail.addresses import CannotBeWritten, canonical, from_address
from weir.workers.mail.message import LONGEST_KEY, Message
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.rendering import Rendered

ID_PLACE = "{id}"
_SALT = "workers.mail.envelope"
_CODE_LETTERS = 20  # hexadecimal digits: 80 bits
_LONGEST_LOCAL = 64  # RFC 5321, 4.5.3.1.1
_LARGEST_ID = 2**63 - 1
_MOST_NUMBERED = 2**15 - 1  # renderings: the column's largest number
# The fields of an e-mail that `note` sets.
NOTED = ("recipient", "renderings", "subject", "content_hash", "content_size")

STORE_RENDERING = Statement("store_rendering", returns=int, commits=True, prepare=True)


def note(email: Email, rendered: Rendered) -> None:
    """Set, in memory, what the e-mail's row says about its rendering."""
    email.renderings = min(email.renderings + 1, _MOST_NUMBERED)
    email.recipient = rendered.recipient
    email.subject = rendered.subject
    email.content_hash = rendered.content_hash
    email.content_size = len(rendered.content)


def store(email: Email, rendered: Rendered) -> Message | None:
    """Store what is transmitted of a claimed e-mail, in place of an earlier draft; return it, with its envelope sender.

    Commits by itself. Returns None, and stores nothing, if the claim is lost. Raises CannotBeWritten.
    """
    note(email, rendered)
    stored = message(email, Rendering(email=email, content=rendered.content))
    noted = {name: getattr(email, name) for name in NOTED}
    is_held = STORE_RENDERING(row=email.pk, token=email.claim_token, content=rendered.content, **noted)
    return stored if is_held else None


def message(email: Email, rendering: Rendering) -> Message:
    """Return the message to transmit, with the envelope sender that the settings name now. Raises CannotBeWritten."""
    return Message(
        from_address=envelope_sender(email),
        recipient=email.recipient,
        content=bytes(rendering.content),
        idempotency_key=_key(email),
    )


def envelope_sender(email: Email) -> str:
    """Return the address to which delivery reports about the e-mail go. Raises CannotBeWritten.

    WEIR_MAIL_ENVELOPE_SENDER, if it is set, takes the place of the sender of a message that the project wrote.
    """
    wanted = weir_settings.WEIR_MAIL_ENVELOPE_SENDER
    if not wanted:
        return email.envelope_sender or from_address()
    return canonical(wanted.replace(ID_PLACE, f"{email.pk}-{_code(email, settings.SECRET_KEY)}"))


def sent_from(addresses: Iterable[str]) -> Iterator[Email]:
    """Yield the e-mails whose own envelope senders are among these addresses. A forged address yields nothing."""
    before, found, after = weir_settings.WEIR_MAIL_ENVELOPE_SENDER.partition(ID_PLACE)
    if not found or envelope_fault():
        return
    after = canonical(f"x{after}").removeprefix("x")  # with the domain in ASCII
    wanted = re.compile(
        rf"{re.escape(before)}(\d{{1,19}})-([0-9a-f]{{{_CODE_LETTERS}}}){re.escape(after)}", re.IGNORECASE
    )
    codes = {int(each[1]): each[2].lower() for each in map(wanted.fullmatch, addresses) if each}
    for email in Email.objects.filter(pk__in=[number for number in codes if number <= _LARGEST_ID]):
        keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
        if any(compare_digest(codes[email.pk], _code(email, key)) for key in keys):
            yield email


def envelope_fault() -> str:
    """Return what is wrong with WEIR_MAIL_ENVELOPE_SENDER; an empty string if nothing is."""
    wanted = weir_settings.WEIR_MAIL_ENVELOPE_SENDER
    longest = wanted.replace(ID_PLACE, f"{_LARGEST_ID}-{'0' * _CODE_LETTERS}")
    try:
        written = canonical(longest) if wanted else ""
    except CannotBeWritten as error:
        return str(error)
    if ID_PLACE in wanted.replace(ID_PLACE, "", 1) or ID_PLACE in wanted.rpartition("@")[2]:
        return f"{ID_PLACE} may stand once, before the @."
    if not written.isascii():
        return "There is a letter beyond ASCII before the @, which not every mail server takes (RFC 6531)."
    if len(written.rpartition("@")[0]) > _LONGEST_LOCAL:
        return f"With the largest id, there are more than {_LONGEST_LOCAL} characters before the @."
    return ""


def _key(email: Email) -> str:
    """Return the idempotency key of the e-mail's present content.

    After a provider has accepted the e-mail, the key is a new one, so that the provider sends the e-mail again if an
    operator resends it.
    """
    key = f"{email.message_id.strip('<>')}/{email.renderings}"
    if email.is_id_shared:  # a provider must not take the e-mail to one recipient for the one to another
        key = f"{key}/{_sha256(f'{email.kind} {email.key}')[:16]}"
    if email.provider_id:
        key = f"{key}/{_sha256(email.provider_id)[:12]}"
    return key if len(key) <= LONGEST_KEY else _sha256(key)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _code(email: Email, key: str | bytes) -> str:
    value = f"{email.pk} {email.recipient.lower()}"
    return salted_hmac(_SALT, value, key, algorithm="sha256").hexdigest()[:_CODE_LETTERS]
