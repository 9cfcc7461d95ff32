"""Each notification is read on the page or told by one digest: never both, never neither, whoever comes first."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from tests.cases import for_each
from tests.integration.conftest import Eventually
from tests.integration.digests.digested import (
    KIM,
    MARKS,
    ROBIN,
    Relay,
    due,
    forget_the_case_before,
    kinds_of_test,
    lines,
    relay,
    send,
    tell,
    the_email,
    told,
    unread,
)
from weir.digests import emails, gathering
from weir.notifications import inbox
from weir.notifications.channels import telling
from weir.notifications.inbox import writing
from weir.notifications.models import Notification
from weir.notifications.removal import retention
from weir.workers.mail import resolving
from weir.workers.mail.message import Message
from weir.workers.mail.models import Act, Email, Rendering
from weir.workers.mail.phases import Phase
from weir.workers.mail.sending import contents, leases, runner
from weir.workers.mail.sending.source import Held
from weir.workers.mail.transports.base import OutcomeUnknown, Refused

pytestmark = MARKS
__all__ = ["kinds_of_test", "relay"]

A, B = "a", "b"
HOUR = timedelta(hours=1)


def read(*rows: Notification) -> int:
    return inbox.mark_read(KIM, [row.pk for row in rows])


def read_all(_row: Notification) -> int:
    return inbox.mark_all_read(KIM)


def read_by_mark(_row: Notification) -> int:
    """Read all by a read mark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "MOST_MARKED", 0)
        return inbox.mark_all_read(KIM)


def read_by_orm(row: Notification) -> int:
    return Notification.objects.filter(pk=row.pk, read_at=None).update(read_at=Now())


WAYS = [read, read_all, read_by_mark, read_by_orm]


def raises(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def in_thread(call: Callable[[], Any]) -> Future[Any]:
    """Call it in a thread, with a connection of its own."""

    def run() -> Any:
        try:
            return call()
        finally:
            connection.close()

    pool = ThreadPoolExecutor(1)
    result = pool.submit(run)
    pool.shutdown(wait=False)
    return result


def is_somebody_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
        return cursor.fetchone() is not None


def gathered() -> tuple[Notification, Notification, Email]:
    rows = tell(A), tell(B)
    due()
    gathering.gather_due(0.0)
    return *rows, the_email("pending")


def tells(email: Email, *rows: Notification) -> bool:
    """Do what `begin` does, and roll it back if it must."""
    with transaction.atomic():
        if telling.tell(email.pk, KIM, [row.pk for row in rows]):
            return True
        transaction.set_rollback(True)
    return False


def test_a_digest_tells_what_nobody_has_read_and_the_page_shows_it_as_read(relay: Relay) -> None:
    """Nothing is told before its time, and nothing twice."""
    tell(A), tell(B), tell("robin's", ROBIN)
    gathering.gather_due(0.0)
    assert not Email.objects.exists()
    send()
    assert [(email["To"], lines(email)) for email in relay.came] == [
        ("plain.7@customers.example", [A, B]),
        ("plain.8@customers.example", ["robin's"]),
    ]
    assert (unread(), unread(ROBIN)) == (set(), set())
    assert inbox.mark_read(KIM, Notification.objects.values_list("pk", flat=True)) == 0
    send()
    assert len(relay.came) == 2


@for_each("way", WAYS)
def test_what_is_read_right_before_begin_is_not_told(relay: Relay, way: Callable[[Notification], int]) -> None:
    """Nothing is begun with an old draft; the next one tells what is left, or nothing."""
    forget_the_case_before(relay)
    first = tell(A)
    tell(B)
    relay.at_begin.append(lambda: way(first))
    send()
    assert (relay.came, unread()) == ([], {B} if way in {read, read_by_orm} else set())
    send()
    assert told(relay) == ({B: 1} if way in {read, read_by_orm} else {})
    assert unread() == set()
    the_email("sent" if relay.came else "cancelled")


@for_each("way", WAYS)
def test_who_reads_while_an_email_begins_waits_and_finds_it_told(
    eventually: Eventually, way: Callable[[Notification], int]
) -> None:
    forget_the_case_before()
    first, second, email = gathered()
    with transaction.atomic():
        assert telling.tell(email.pk, KIM, [first.pk, second.pk])
        reading = in_thread(lambda: way(first))
        eventually(is_somebody_waiting, "the reader to wait")
    assert reading.result(20) == (2 if way is read_by_mark else 0)  # a mark returns what was shown before it
    told_at = set(Notification.objects.values_list("digest_due_at", "digest_id"))
    assert told_at == {(None, email.pk)}


@for_each("way", WAYS)
def test_an_email_that_begins_while_somebody_reads_waits_and_is_drafted_anew(
    eventually: Eventually, way: Callable[[Notification], int]
) -> None:
    forget_the_case_before()
    first, second, email = gathered()
    with transaction.atomic():
        assert way(first)
        begin = in_thread(lambda: tells(email, first, second))
        eventually(is_somebody_waiting, "begin to wait")
    assert begin.result(20) is False
    assert not Notification.objects.filter(digest_due_at=None, digest_id=email.pk).exists()


def test_what_is_written_while_a_digest_begins_is_told_by_the_next(relay: Relay) -> None:
    tell(A)
    relay.at_begin.append(lambda: tell(B))
    send()
    assert (told(relay), unread()) == ({A: 1}, {B})
    send()
    assert (told(relay), unread()) == ({A: 1, B: 1}, set())


def test_a_digest_of_which_all_was_read_is_cancelled(relay: Relay) -> None:
    first, second, _ = gathered()
    assert read(first, second) == 2
    send()
    assert (relay.came, unread()) == ([], set())
    assert "nothing left to tell" in the_email("cancelled").last_reply


def test_a_draft_replaces_the_one_before_unless_its_mailer_has_lost_the_claim() -> None:
    first, *_ = gathered()
    (lost,) = leases.claim(1, uuid4())
    Email.objects.update(claimed_until=Now() - HOUR)
    assert leases.take_back_abandoned() == 1
    (held,) = leases.claim(1, uuid4())
    drafts = [contents.content_of(Held(held))]
    assert read(first) == 1
    drafts.append(contents.content_of(Held(held)))
    with pytest.raises(leases.ClaimLost):
        contents.content_of(Held(lost))
    written = [draft.content for draft in drafts if isinstance(draft, Message)]
    assert [b"- a" in content for content in written] == [True, False]
    assert [bytes(rendering.content) for rendering in Rendering.objects.all()] == written[1:]
    assert the_email("claimed").renderings == 2


def killed_after_begin(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> tuple[Notification, Email]:
    """Return a notification of a digest whose mailer died after begin, and the digest, which is unknown."""
    first, _, email = gathered()
    relay.after.append(raises(RuntimeError("killed")))
    with monkeypatch.context() as patch:
        patch.setattr(leases, "record", lambda *_: False)
        runner.send_due()
    assert (the_email("sending"), unread()) == (email, set())
    Email.objects.update(sending_since=Now() - HOUR)
    leases.end_silent()
    assert (the_email("unknown"), unread(), read(first)) == (email, set(), 0)
    return first, email


def test_an_unknown_digest_keeps_what_it_tells_until_somebody_resolves_it(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It arrived: told. It is sent again: it tells what is still unread. It is given up: the next digest does."""
    _, email = killed_after_begin(relay, monkeypatch)
    send()
    assert relay.came == []
    resolving.resolve(email.pk, Act.ARRIVED, "kim", "It is here.")
    send()
    assert (relay.came, unread(), the_email("sent")) == ([], set(), email)


def test_an_unknown_digest_that_is_sent_again_tells_what_is_still_unread(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, email = killed_after_begin(relay, monkeypatch)
    resolving.resolve(email.pk, Act.RESEND, "kim", "It did not arrive.")
    assert (unread(), read(first)) == ({A, B}, 1)
    send()
    assert (told(relay), unread(), the_email("sent")) == ({B: 1}, set(), email)


def test_what_a_digest_told_that_is_given_up_is_told_by_the_next(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour later at the earliest: otherwise an address that is refused would get one every ten seconds."""
    _, email = killed_after_begin(relay, monkeypatch)
    resolving.resolve(email.pk, Act.GIVE_UP, "kim", "Nobody knows.")
    assert unread() == {A, B}
    assert not Notification.objects.filter(digest_due_at__lt=Now() + HOUR - timedelta(minutes=1)).exists()
    send()
    assert (told(relay), unread(), Email.objects.count()) == ({A: 1, B: 1}, set(), 2)


def test_what_an_unknown_digest_told_is_kept_until_somebody_resolves_it(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """However long ago that was: so it can be told again. Then it is purged as all that is read."""
    settings.WEIR_NOTIFICATION_RETENTION = 1e-6
    _, email = killed_after_begin(relay, monkeypatch)
    assert (retention.purge(), Notification.objects.count()) == (0, 2)
    resolving.resolve(email.pk, Act.RESEND, "kim", "It did not arrive.")
    send()
    assert (told(relay), unread(), the_email("sent")) == ({A: 1, B: 1}, set(), email)
    assert (retention.purge(), Notification.objects.count()) == (2, 0)


REFUSED = Refused("550 No", Phase.NOT_BEGUN, is_permanent=True)
LATER = Refused("452 Later", Phase.AFTER_DOT, is_permanent=False)


@for_each(
    "when, error, state, left",
    [
        ("at_begin", REFUSED, "failed", {A, B}),
        ("after", Refused("554 No", Phase.AFTER_DOT, is_permanent=True), "failed", {A, B}),
        ("after", LATER, "pending", {A, B}),
        ("after", OutcomeUnknown("cut", Phase.AFTER_DOT), "unknown", set()),
    ],
)
def test_only_an_attempt_that_may_have_arrived_keeps_what_it_tells(
    relay: Relay, when: str, error: Exception, state: str, left: set[str]
) -> None:
    forget_the_case_before(relay)
    gathered()
    getattr(relay, when).append(raises(error))
    due()
    runner.send_due()
    assert unread() == left
    the_email(state)
    read(*Notification.objects.filter(title=A))
    send()
    assert told(relay) == ({B: 1} if left else {})


def test_a_relay_that_is_asked_again_gets_the_same_bytes(relay: Relay) -> None:
    """What it may have accepted stays told, whatever is written meanwhile."""
    relay.key_lifetime = timedelta(days=1)
    gathered()
    relay.after.append(raises(OutcomeUnknown("cut", Phase.AFTER_DOT)))
    due()
    runner.send_due()
    email = the_email("pending")
    assert (email.ask_until is not None, unread(), emails.undecided()) == (True, set(), [email.pk])
    due()
    runner.send_due()
    assert (told(relay), the_email("sent"), emails.undecided()) == ({A: 1, B: 1}, email, [])


SEEDS = range(2)
STEPS = 40


@for_each("seed", SEEDS)
def test_whatever_happens_each_is_told_once(relay: Relay, seed: int) -> None:
    """A model: random steps and outcomes; what was read on the page, told and is left are all that was written."""
    forget_the_case_before(relay)
    chance = random.Random(seed)  # noqa: S311  not for secrets
    written: list[str] = []
    seen: Counter[str] = Counter()

    def write() -> None:
        written.append(f"{seed}-{len(written)}")
        tell(written[-1])

    def look() -> None:
        for row in inbox.page(KIM, limit=3, unread_only=True):
            seen[row.title] += read(row)

    def fails() -> None:
        error = chance.choice([REFUSED, LATER, OutcomeUnknown("cut", Phase.AFTER_DOT)])
        (relay.at_begin if error is REFUSED else relay.after).append(raises(error))

    def resolve() -> None:
        for email in Email.objects.filter(state="unknown"):
            resolving.resolve(email.pk, chance.choice([Act.RESEND, Act.GIVE_UP]), "kim", "It did not arrive.")

    def look_at_begin() -> None:
        relay.at_begin.append(look)

    steps: list[Callable[[], None]] = [write, write, write, look, fails, send, send, resolve, look_at_begin]
    for _ in range(STEPS):
        chance.choice(steps)()
    relay.at_begin.clear()
    relay.after.clear()
    for _ in range(3):
        resolve()
        send()
    assert not Email.objects.filter(state__in=["pending", "claimed", "sending", "unknown"]).exists()
    assert unread() == set()
    assert seen + told(relay) == Counter(written)
