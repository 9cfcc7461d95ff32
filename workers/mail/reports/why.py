"""Finds out why an e-mail waits: everything that is in its way now, and until when, if that is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from weir.conf import settings
from weir.ratelimit.models import Site
from weir.ratelimit.site_names import as_argument
from weir.workers.mail import kinds, suppression
from weir.workers.mail.models import Email, PausedKind, RelayHold
from weir.workers.mail.phases import EmailState
from weir.workers.mail.transports import relays
from weir.workers.mail.transports.relays import Relay
from weir.workers.processes.status import processes


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailBlocker:
    """One thing that is in an e-mail's way."""

    what: str  # for machines
    text: str  # a sentence
    until: datetime | None = None


def why(email: Email) -> list[EmailBlocker]:
    """Return what is in the e-mail's way, first what needs somebody; an empty list if it has ended for good."""
    if email.state == EmailState.PENDING:
        found = [*_by_people(email), *_by_time(email), *_by_relays(email), *_without_mailer()]
        return found or [
            EmailBlocker(what="turn", text="Nothing is in its way: the next mailer that is free takes it.")
        ]
    if email.state == EmailState.CLAIMED:
        text = f"The mailer {email.claimed_by} has claimed it, and has not begun."
        return [EmailBlocker(what="claimed", text=text, until=email.claimed_until)]
    if email.state == EmailState.SENDING and email.sending_since:
        end = email.sending_since + timedelta(seconds=settings.WEIR_MAIL_UNKNOWN_AFTER)
        text = f"The mailer {email.claimed_by} transmits it. Without a word of it, it is unknown then."
        return [EmailBlocker(what="sending", text=text, until=end)]
    if email.state == EmailState.UNKNOWN:
        text = (
            "Whether it was accepted is not known: find out, and say so by "
            f"`manage.py emails resolve {email.pk} --arrived`, `--resend` or `--give-up`."
        )
        return [EmailBlocker(what="unknown", text=text)]
    return []


def goes_by(email: Email) -> list[Relay]:
    """Return the relays that the e-mail would use, the first choice first.

    These are the relays of its kind or, if a relay may have accepted it, only that relay.
    """
    if email.state not in {EmailState.PENDING, EmailState.CLAIMED}:
        return []
    if email.ask_until is None:
        return list(relays.of_kind(email.kind))
    return [relay for relay in relays.relays() if relay.name == email.relay]


def _by_people(email: Email) -> Iterator[EmailBlocker]:
    if paused := PausedKind.objects.filter(pk=email.kind).first():
        text = f"{paused.who} has paused the kind {email.kind} since {_moment(paused.paused_at)}: {paused.why}"
        yield EmailBlocker(what="paused", text=text)
    if because := suppression.reasons_of([email]).get(email.pk):
        yield EmailBlocker(what="suppressed", text=f"It will not be sent. {because}")
    if email.kind not in kinds.names() and not hasattr(email, "rendering"):
        text = f"It is not rendered, and no installed app registers the kind {email.kind}: it will fail."
        yield EmailBlocker(what="no kind", text=text)


def _by_time(email: Email) -> Iterator[EmailBlocker]:
    if email.expires_at is not None and email.expires_at <= timezone.now():
        text = f"Its time is over since {_moment(email.expires_at)}: it will not be sent."
        yield EmailBlocker(what="expired", text=text)
    if email.next_attempt_at > timezone.now():
        reason = f"Attempt {email.attempts} was in vain: {email.last_reply}" if email.attempts else "It is for later."
        yield EmailBlocker(what="not due", text=f"It is not due yet. {reason}", until=email.next_attempt_at)
    if email.ask_until is not None:
        text = f"It may have been accepted: {email.relay} is asked what became of it."
        yield EmailBlocker(what="asked", text=text, until=email.ask_until)


def _by_relays(email: Email) -> Iterator[EmailBlocker]:
    """Yield the holds if each relay that the e-mail may use has one; and the relays' sites that are paused."""
    usable = goes_by(email)
    holds = RelayHold.objects.in_bulk([relay.name for relay in usable])
    if len(holds) == len(usable):
        for hold in holds.values():
            text = f"The relay {hold.relay} cannot be used since {_moment(hold.since)}. {hold.reason}"
            yield EmailBlocker(what="held", text=text)
    if settings.WEIR_MAIL_RATE:
        places = [relay.place for relay in usable]
        paused = Site.objects.filter(name__in=places, paused_until__gt=timezone.now())
        for site in paused:
            text = f"The site {site.name} is paused: `manage.py sites resume {as_argument(site.name)}`."
            yield EmailBlocker(what="site paused", text=text, until=site.paused_until)


def _without_mailer() -> Iterator[EmailBlocker]:
    if not any("mailer" in process.kinds and process.runs for process in processes()):
        text = "No mailer runs: start a worker of the queue weir.mail, or type `manage.py send_emails`."
        yield EmailBlocker(what="no mailer", text=text)


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
