"""Each e-mail has the time of its end, by whatever it ended; the history counts it in that minute."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from tests.integration.history.conftest import Past, recounted
from tests.integration.mail.notes import note, note_kind
from weir.workers.history import rollup
from weir.workers.history.models import Minute
from weir.workers.history.reports import totals
from weir.workers.ledger.outcomes import Outcome
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import leases, outcomes
from weir.workers.mail.transports.base import Accepted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("note_kind", "messages")]
__all__ = ["note_kind"]

UNKNOWN = Outcome(state=EmailState.UNKNOWN, phase=Phase.AFTER_DOT, last_reply="no reply came", attempts=1)


def begun() -> Email:
    note()
    [email] = leases.claim(1, uuid4())
    leases.begin(email, "relay", None)
    return email


def recorded(outcome: Outcome) -> Email:
    """End an attempt like this, and write that it ended an hour ago."""
    email = begun()
    assert leases.record(email, outcome)
    Email.objects.filter(ended_at__isnull=False).update(ended_at=Now() - timedelta(hours=1))
    return email


def resolved(act: Act) -> Callable[[], None]:
    def resolve() -> None:
        resolving.resolve(recorded(UNKNOWN).pk, act, "kim", "as the log says")

    return resolve


def silent() -> None:
    begun()
    Email.objects.update(sending_since=F("sending_since") - timedelta(hours=1))
    assert leases.end_silent() == 1


def accepted_after_all() -> None:
    """The worker of an e-mail that had become unknown says that it was accepted."""
    email = recorded(UNKNOWN)
    assert leases.record(email, outcomes.accepted(Accepted("250 OK")))


def accepted_by_who_lost_the_claim() -> None:
    email = recorded(UNKNOWN)
    Email.objects.update(claim_token=uuid4())
    assert leases.record(email, outcomes.accepted(Accepted("250 OK")))


def expired() -> None:
    note(expires_at=timezone.now() + timedelta(hours=1))
    Email.objects.update(expires_at=Now())
    assert leases.end_expired(60.0) == 1


def cancelled() -> None:
    resolving.resolve(note().pk, Act.CANCEL, "kim", "not wanted")


ENDS: dict[str, tuple[Callable[[], object], str]] = {
    "accepted": (lambda: leases.record(begun(), outcomes.accepted(Accepted("250 OK"))), "sent"),
    "not written": (lambda: leases.record(begun(), outcomes.cannot_be_written("no address")), "failed"),
    "suppressed": (lambda: leases.record(begun(), outcomes.suppressed("on the list")), "suppressed"),
    "no reply": (lambda: leases.record(begun(), UNKNOWN), "unknown"),
    "its worker died": (silent, "unknown"),
    "accepted after all": (accepted_after_all, "sent"),
    "accepted, by a worker that had lost the claim": (accepted_by_who_lost_the_claim, "sent"),
    "it arrived": (resolved(Act.ARRIVED), "sent"),
    "it came back": (resolved(Act.BOUNCED), "bounced"),
    "given up": (resolved(Act.GIVE_UP), "failed"),
    "cancelled": (cancelled, "cancelled"),
    "expired": (expired, "expired"),
}
GOES_ON: dict[str, Callable[[], object]] = {
    "queued": note,
    "being sent": begun,
    "given back": lambda: leases.record(begun(), outcomes.given_back("the relay rests")),
    "sent again": resolved(Act.RESEND),
}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_has_its_time(how: str) -> None:
    """The moment at which it came into that state, by the database's clock."""
    end, state = ENDS[how]
    end()
    email = Email.objects.get()
    assert email.state == state
    assert Email.objects.filter(ended_at__gt=Now() - timedelta(minutes=1), ended_at__lte=Now()).exists()


@pytest.mark.parametrize("how", GOES_ON)
def test_what_goes_on_has_no_end(how: str) -> None:
    """An e-mail that is to be sent, or is being sent, has not ended."""
    GOES_ON[how]()
    assert Email.objects.get().ended_at is None


def test_an_unknown_email_that_stays_unknown_has_one_end() -> None:
    """A second word that says no more does not count as another end."""
    email = recorded(UNKNOWN)
    assert leases.record(email, UNKNOWN)
    assert Email.objects.get().ended_at < Email.objects.get().created_at  # type: ignore[operator]


def test_ends_are_counted_by_state(past: Past, settings: Settings) -> None:
    """In the minute of the end, which is not that of the queueing."""
    settings.WEIR_SLOT_RETENTION = 86_400.0
    for number, state in enumerate(("sent", "sent", "failed", "suppressed")):
        email = note(str(number))
        sent_at = past.began if state == "sent" else None
        Email.objects.filter(pk=email.pk).update(
            state=state, ended_at=past.at(2.5), sent_at=sent_at, last_reply="says why"
        )

    rollup.roll_up()

    assert totals() == recounted(past.began)
    assert totals()["emails_ended", "sent"] == 2
    assert totals()["emails_sent", "note"] == 2
    seen = Minute.objects.get(minute=past.at(2))
    assert (seen.emails_sent, seen.emails_failed, seen.emails_unknown) == (2, 1, 0)


def test_sent_ones_are_counted_by_kind_and_long_names_together(past: Past, settings: Settings) -> None:
    """A label has forty characters; no two kinds are taken for one of them."""
    settings.WEIR_SLOT_RETENTION = 86_400.0
    for number, kind in enumerate(("a" * 40, "a" * 41, "a" * 42, "note")):
        Email.objects.filter(pk=note(str(number)).pk).update(
            kind=kind, state="sent", ended_at=past.at(2.5), sent_at=past.began
        )
    rollup.roll_up()
    assert totals() == recounted(past.began)
    found = {label: value for (series, label), value in totals().items() if series == "emails_sent"}
    assert found == {"a" * 40: 1, "other": 2, "note": 1}
