"""Whoever judges a run finds each kind of loss, also where the totals are right."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from demo.fakes.mail_server import ACCEPTED, Event
from demo.fakes.site_log import Arrival
from tests.acceptance import judging
from tests.acceptance.all_jobs import USERS, Committed
from tests.acceptance.conftest import ALLOW_NETS
from weir.notifications.models import Notification, UnreadCount
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState

MANY = 3


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was committed, and what the sites and the mail server have noted."""

    committed: Committed
    arrivals: list[Arrival]
    accepted: list[Event]

    def lost(self) -> dict[str, int]:
        return judging.lost(self.committed, self.arrivals, self.accepted)


@pytest.fixture
def run(transactional_db: None, settings: Settings) -> Run:  # noqa: ARG001  there must be tables
    """All was done that was committed."""
    settings.WEIR_FETCH_ALLOW_NETS = [ALLOW_NETS]
    committed = Committed()
    committed.fetch(f"http://127.1.0.1:8000/ok/{number}" for number in range(MANY))
    committed.ship(MANY)
    committed.notify()
    return Run(
        committed=committed,
        arrivals=[arrival(url) for url in finished()],
        accepted=[accepted(email) for email in sent()],
    )


def finished() -> list[str]:
    """Set all fetches to `done`; returns their URLs."""
    Fetch.objects.update(state=FetchState.DONE, status_code=200, finished_at=Now())
    return list(Fetch.objects.values_list("url", flat=True))


def sent() -> list[Email]:
    """Set all e-mails to `sent`, and return them."""
    Email.objects.update(state=EmailState.SENT, sent_at=Now(), ended_at=Now())
    return list(Email.objects.all())


def arrival(url: str) -> Arrival:
    return Arrival(at_ns=0, host=urlsplit(url).hostname or "", path=urlsplit(url).path)


def accepted(email: Email) -> Event:
    return Event(at_ns=0, event=ACCEPTED, recipient=email.recipient, message_id=email.message_id)


def test_nothing_is_lost(run: Run) -> None:
    assert run.lost() == {}
    assert judging.twice(run.accepted) == set()


def lose_fetch(_run: Run) -> None:
    Fetch.objects.first().delete()  # type: ignore[union-attr]


def fail_fetch(_run: Run) -> None:
    Fetch.objects.filter(pk=Fetch.objects.latest("pk").pk).update(state=FetchState.FAILED, error="no answer")


def lose_email(_run: Run) -> None:
    Email.objects.latest("pk").delete()


def lose_email_that_was_not_accepted(run: Run) -> None:
    run.accepted[:] = [event for event in run.accepted if event.recipient != Email.objects.latest("pk").recipient]
    lose_email(run)


def lose_notification(_run: Run) -> None:
    Notification.objects.latest("pk").delete()


def forget_acceptance(run: Run) -> None:
    run.accepted.pop()


def forget_arrival(run: Run) -> None:
    run.arrivals.pop()


@pytest.mark.parametrize(
    ("breaks", "found"),
    [
        (lose_fetch, {"fetches": 1}),
        (fail_fetch, {"fetches": 1}),
        (forget_arrival, {"fetches that are done, and no site saw": 1}),
        (lose_email, {"e-mails": 1, "e-mails accepted, and neither sent nor unknown": 1}),
        (lose_email_that_was_not_accepted, {"e-mails": 1}),
        (forget_acceptance, {"e-mails sent, and not accepted": 1}),
        (lose_notification, {"notifications": 1}),
    ],
)
def test_each_loss_is_found(run: Run, breaks: Callable[[Run], None], found: dict[str, int]) -> None:
    """A commit that web code does not know of makes up for none: its reply was lost, and all of it was done."""
    breaks(run)
    assert run.lost() == found
    unnoted = Committed()
    unnoted.fetch(["http://127.1.0.1:8000/ok/unnoted"])
    unnoted.ship(1)
    unnoted.notify()
    Fetch.objects.filter(state=FetchState.QUEUED).update(state=FetchState.DONE, status_code=200, finished_at=Now())
    Email.objects.filter(state=EmailState.PENDING).update(state=EmailState.SENT, sent_at=Now(), ended_at=Now())
    run.arrivals.append(arrival("http://127.1.0.1:8000/ok/unnoted"))
    run.accepted.append(accepted(Email.objects.latest("pk")))
    assert run.lost() == found


def test_an_email_is_sent_twice_by_its_message_id_or_its_recipient(run: Run) -> None:
    first = run.accepted[0]
    elsewhere = replace(first, recipient="other@customers.example")
    assert judging.twice([*run.accepted, first, first]) == {first.recipient}
    assert judging.twice([*run.accepted, replace(first, message_id="<other>")]) == {first.recipient}
    assert judging.twice([*run.accepted, elsewhere]) == {elsewhere.recipient}


def test_a_stored_number_is_wrong_where_it_is_not_that_of_the_rows(run: Run) -> None:
    """Also that of a user who has no rows."""
    assert judging.stored_wrong() == len({user for _, user in run.committed.notifications})
    UnreadCount.objects.bulk_create(UnreadCount(user_id=user, unread_count=1, epoch=0) for user in USERS)
    assert judging.stored_wrong() == 0
    Notification.objects.filter(user_id=USERS[0]).delete()
    assert judging.stored_wrong() == 1
