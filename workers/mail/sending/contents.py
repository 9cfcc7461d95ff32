"""Finds what is to be transmitted for a claimed e-mail, or why nothing is."""

from django.db import Error

from weir.workers.ledger.outcomes import Outcome
from weir.workers.mail import kinds, rendering, renderings
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.kinds import Drafting
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email
from weir.workers.mail.phases import Phase
from weir.workers.mail.rendering import Rendered
from weir.workers.mail.sending import leases, outcomes
from weir.workers.mail.sending.source import Held
from weir.workers.mail.transports.base import BrokenOff


def content_of(held: Held) -> Message | Outcome:
    """Return the message to transmit; if nothing is to be transmitted, the outcome of the e-mail.

    Raises leases.ClaimLost; and BrokenOff if PostgreSQL fails while a kind or a template renders the e-mail.
    """
    email = held.email
    leases.refuse_expired(email)
    if email.ask_until is not None:
        return _question(held)
    if held.suppressed_because:
        return outcomes.suppressed(held.suppressed_because)
    drafting = kinds.drafting(email.kind)
    if held.rendering is not None and drafting is None:
        return renderings.message(email, held.rendering)
    try:
        return _rendered(email) if drafting is None else _drafted(email, drafting)
    except CannotBeWritten as error:
        return outcomes.cannot_be_written(str(error))
    except Error as error:
        raise BrokenOff(f"PostgreSQL: {error}", Phase.NOT_BEGUN) from error


def _question(held: Held) -> Message | Outcome:
    """Return the message that was transmitted before, to ask the relay what became of it.

    If the relay cannot be asked, return the outcome, which says why.
    """
    if not leases.may_be_asked_about(held.email):
        reason = f"{held.email.relay} does not know the e-mail's key any more. {held.email.last_reply}"
        return outcomes.stays_unknown(reason)
    if held.rendering is None:
        return outcomes.stays_unknown("What was transmitted is not kept any more, so the provider cannot be asked.")
    return renderings.message(held.email, held.rendering)


def _drafted(email: Email, drafting: Drafting) -> Message | Outcome:
    """Draft the e-mail anew, whatever an earlier attempt would have told. Raises ClaimLost and CannotBeWritten."""
    draft = rendering.drafted(email, drafting)
    if draft is None:
        return outcomes.nothing_to_tell()
    rendered = rendering.render(email, draft.content)
    email.tells = draft.tells
    return _stored(email, rendered)


def _rendered(email: Email) -> Message:
    """Render the e-mail, and store the rendering before it is transmitted. Raises ClaimLost and CannotBeWritten."""
    return _stored(email, rendering.render(email))


def _stored(email: Email, rendered: Rendered) -> Message:
    if message := renderings.store(email, rendered):
        return message
    raise leases.ClaimLost
