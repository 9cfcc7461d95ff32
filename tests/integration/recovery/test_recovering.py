"""A recovery: what it does, whatever is killed meanwhile, and how it is done by hand."""

import re
import threading
from datetime import timedelta
from io import StringIO
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from project.doctor.findings import Level
from project.doctor.themes.postgresql import ids
from project.logins import links
from tests import refunds
from tests.integration.mail.shipments import ship
from weir.conf import settings
from weir.notifications import inbox, reconcile
from weir.notifications.models import Notification, Reconciliation
from weir.postgres import sequences
from weir.postgres.timeline import gate
from weir.postgres.timeline.models import KnownTimeline
from weir.postgres.timeline.seen import Seen
from weir.ratelimit import site_settings, sites, slots
from weir.ratelimit.slots import SlotTooFar
from weir.workers.effects.models import Effect
from weir.workers.events import log
from weir.workers.events.models import Event, EventLog, Subject
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.ledger import recovering as recovering_effects
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import leases
from weir.workers.recovery import recovering, stepping, watch, witness
from weir.workers.recovery.models import Recovery

pytestmark = pytest.mark.usefixtures("valkey")
SITE = "site.test"


def went_back() -> None:
    """Let Redis know more than PostgreSQL."""
    watch.look("test")
    witness.exchange(KnownTimeline.objects.get().generation + 5)
    gate.forget()


def test_sites_rest_for_their_interval_and_the_look_ahead() -> None:
    site_settings.set_rate(SITE, "1/m")
    held = slots.reserve(SITE)
    went_back()
    watch.settle("test")
    assert not slots.confirm(held)
    with pytest.raises(SlotTooFar) as too_far:
        slots.reserve(SITE, max_wait=0)
    assert 60 + settings.WEIR_LOOKAHEAD < too_far.value.retry_after < 60 + settings.WEIR_LOOKAHEAD + 2


def test_a_site_that_is_created_afterwards_rests_too() -> None:
    """It may be one that PostgreSQL has forgotten."""
    went_back()
    watch.settle("test")
    with pytest.raises(SlotTooFar) as too_far:
        slots.reserve("new.test", max_wait=0)
    assert too_far.value.retry_after > settings.WEIR_LOOKAHEAD


def test_events_have_higher_ids_than_any_reader_has_seen() -> None:
    """The cursor is ahead of what PostgreSQL remembers, and none of what ends afterwards comes before it."""
    EventLog.objects.create(key=uuid4())
    request_fetch("no URL")
    _, cursor = log.read("", 1, Subject.FETCH)
    request_fetch("none either")
    _, ahead = log.read(cursor, 1, Subject.FETCH)
    Event.objects.latest("pk").delete()
    with connection.cursor() as database:
        database.execute("SELECT setval('weir_events_event_id_seq', %s)", [Event.objects.latest("pk").pk])
    went_back()
    watch.settle("test")
    later = request_fetch("nor this")
    [event], _ = log.read(ahead, 10, Subject.FETCH)
    assert event.subject_id == later.pk


def test_emails_that_may_have_gone_are_unknown() -> None:
    due, claimed, begun, later = (ship() for _ in range(4))
    Email.objects.filter(pk=later.pk).update(next_attempt_at=Now() + timedelta(hours=1))
    Email.objects.filter(pk=due.pk).update(priority=-1)
    held = leases.claim(2, uuid4())
    leases.begin(next(email for email in held if email.pk == begun.pk), "relay", None)
    went_back()
    watch.settle("test")
    found = {email.pk: (email.state, email.phase) for email in Email.objects.all()}
    assert found == {
        **dict.fromkeys([due.pk, claimed.pk, begun.pk], (EmailState.UNKNOWN, Phase.FORGOTTEN)),
        later.pk: (EmailState.PENDING, ""),
    }
    assert Recovery.objects.get().emails == 3
    assert "PostgreSQL has forgotten what happened since" in Email.objects.get(pk=due.pk).last_reply


def test_effects_that_may_have_happened_are_unknown_or_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is asked only when a process that has begun one would have been heard of. Batches are short."""
    monkeypatch.setattr(recovering_effects, "BATCH", 2)
    for kind in (*refunds.KINDS, *[refunds.PROBED] * 4):
        refunds.queue(kind, 1)
    went_back()
    watch.settle("test")
    found = {(effect.kind, effect.state, effect.phase) for effect in Effect.objects.all()}
    assert found == {
        (refunds.BLIND, "unknown", "forgotten"),
        (refunds.KEYED, "unknown", "forgotten"),
        (refunds.PROBED, "pending", "forgotten"),
    }
    asked = Effect.objects.filter(kind=refunds.PROBED).latest("pk")
    assert asked.next_attempt_at > timezone.now() + timedelta(seconds=settings.WEIR_EFFECT_UNKNOWN_AFTER / 2)
    assert asked.ask_until is not None


def test_one_that_was_unknown_may_have_been_sent_again() -> None:
    """Logs of the first attempt alone settle it no more; what was said then is kept."""
    ship()
    [email] = leases.claim(1, uuid4())
    leases.begin(email, "relay", None)
    Email.objects.update(
        state=EmailState.UNKNOWN, phase=Phase.BEGUN, last_reply="It hung.", ended_at=Now(), claimed_until=None
    )
    before = Email.objects.get().sending_since
    went_back()
    watch.settle("test")
    found = Email.objects.get()
    assert (found.state, found.phase, found.relay) == (EmailState.UNKNOWN, Phase.FORGOTTEN, "")
    assert found.last_reply.endswith("this may have been sent. Before that: It hung.")
    assert before
    assert found.sending_since
    assert found.sending_since > before
    assert Recovery.objects.get().emails == 1


def test_numbers_are_counted_until_reconciled() -> None:
    reconcile.run_pass()
    inbox.notify(1, "news", "Hello")
    assert Reconciliation.objects.get().trusted
    went_back()
    watch.settle("test")
    assert not Reconciliation.objects.get().trusted
    assert inbox.unread_count(1) == 1
    report = reconcile.run_pass()
    assert report
    assert report.trusted
    assert inbox.unread_count(1) == 1


def test_links_that_sign_in_once_are_void() -> None:
    token = links.make("").rstrip("/").rpartition("/")[2]
    went_back()
    watch.settle("test")
    assert links.use(token) is None


def test_no_id_is_given_twice() -> None:
    before = slots.reserve(SITE).slots[0].id, ship().pk
    went_back()
    watch.settle("test")
    site_settings.set_rate("quick.test", "1000/s")
    assert slots.reserve("quick.test", max_wait=60).slots[0].id > before[0] + recovering.AHEAD
    assert ship().pk > before[1] + recovering.AHEAD


class Killed(BaseException):
    """Of a process, in the middle."""


@pytest.mark.parametrize(
    ("owner", "name"),
    [(sites, "rest_all"), (reconcile, "distrust"), (recovering_effects, "make_unknown"), (gate, "open_gate")],
)
def test_one_that_is_killed_leaves_the_gate_closed_and_another_begins_anew(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    slots.reserve(SITE)
    ship()
    went_back()

    def die(*_arguments: object, **_options: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, die)
        with pytest.raises(Killed):
            watch.settle("first")
    assert KnownTimeline.objects.get().closed_because
    watch.settle("second")  # the first has the lease
    assert not Recovery.objects.exists()
    KnownTimeline.objects.update(lease_until=Now() - timedelta(seconds=1))
    watch.settle("third")
    assert not KnownTimeline.objects.get().closed_because
    assert Email.objects.get().state == EmailState.UNKNOWN
    done = Recovery.objects.get()
    assert "has forgotten what was committed" in done.why
    assert done.who == "third"


def test_it_is_done_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    slots.reserve(SITE)
    ship()
    call_command("recover", "--why", "restored", "--since", "2026-11-24 03:00", "--dry-run")
    assert "1 sites would rest" in capsys.readouterr().out
    assert Email.objects.get().state == EmailState.PENDING
    call_command("recover", "--why", "restored", "--since", "2026-11-24 03:00")
    assert "1 sites rest, 1 e-mails became unknown" in capsys.readouterr().out
    done = Recovery.objects.get()
    assert (done.why, f"{done.since:%H:%M}") == ("restored", "03:00")
    assert "since 2026-11-24 03:00:00 UTC" in Email.objects.get().last_reply
    assert slots.estimate(SITE) > settings.WEIR_LOOKAHEAD


def test_by_hand_where_a_process_has_found_out_already() -> None:
    """Both reasons are kept."""
    KnownTimeline.objects.update(closed_because="It went back.")
    call_command("recover", "--why", "restored")
    assert Recovery.objects.get().why == "restored (It went back.)"


def test_a_database_that_was_moved_is_taken_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    slots.reserve(SITE)
    ship()
    KnownTimeline.objects.update(cluster="1/2", timeline="00000009")
    call_command("recover", "--why", "pg_upgrade", "--nothing-lost")
    assert "nothing was changed" in capsys.readouterr().out
    assert slots.reserve(SITE)
    assert Email.objects.get().state == EmailState.PENDING
    assert Recovery.objects.get().why == "pg_upgrade"


@pytest.mark.parametrize("options", [[], ["--nothing-lost"]], ids=["recovered", "nothing lost"])
def test_in_a_copy_ids_of_transactions_are_forgotten(options: list[str]) -> None:
    """Those of the other cluster would be those of later transactions here. What is written from now on has its own."""
    old = inbox.notify(1, "news", "Hello")
    KnownTimeline.objects.update(cluster="1/2", timeline="00000009")
    call_command("recover", "--why", "moved", *options)
    new = inbox.notify(1, "news", "Hello")
    xids = {row.pk: int(row.changed_xid) for row in Notification.objects.all()}
    assert (xids[old.pk], xids[new.pk] > 0) == (0, True)


def test_a_copy_without_its_sequences_has_lost_something() -> None:
    """As logical replication leaves it: each INSERT would fail. The statements that the sentence names mend all."""
    inbox.notify_many(range(1, 4), "k", "title")
    slots.reserve(SITE)
    Group.objects.bulk_create([Group(name="a"), Group(name="b")])
    User.objects.create(username="u").groups.set(Group.objects.all())
    KnownTimeline.objects.update(cluster="1/2", timeline="00000009")
    with connection.cursor() as cursor:
        cursor.execute("SELECT format('%I.%I', schemaname, sequencename) FROM pg_sequences")
        for (name,) in cursor.fetchall():
            cursor.execute("SELECT setval(%s, 1, false)", [name])
    for options in ([], ["--dry-run"]):
        with pytest.raises(CommandError) as refused:
            call_command("recover", "--why", "moved", "--nothing-lost", *options)
        assert "auth_group_id_seq (1 where rows have " in str(refused.value)
    assert not Recovery.objects.exists()
    assert ids(sequences.behind()).level == Level.WRONG
    assert {"auth_user_groups_id_seq", "weir_notifications_notification_id_seq"} <= {
        one.sequence for one in sequences.behind()
    }
    [command] = re.findall(r"`python manage.py (.*) \| python manage.py dbshell`", str(refused.value))
    assert {"auth", "weir_notifications", "weir_ratelimit"} <= {*command.split()}
    told = StringIO()
    call_command(*command.split(), no_color=True, stdout=told)
    with connection.cursor() as cursor:
        cursor.execute(told.getvalue())
    assert sequences.behind() == []
    call_command("recover", "--why", "moved", "--nothing-lost")
    inbox.notify_many(range(1, 4), "k", "title")
    assert slots.reserve(SITE)
    assert Group.objects.create(name="c")
    assert ids(sequences.behind()).level == Level.GOOD


def test_a_redis_that_hangs_holds_up_no_process_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Semaphore(0)
    answers = threading.Event()

    def hang(_number: int) -> int:
        asked.release()
        answers.wait()
        return 0

    gate.known_generation()
    gate.set_witness(hang)
    try:
        monkeypatch.setattr(gate, "EVERY_S", 0.0)
        gate.known_generation()
        assert asked.acquire(timeout=10)
    finally:
        answers.set()
        gate.set_witness(witness.exchange)


@pytest.mark.parametrize("step_s", [0.0, 5.0], ids=["no step", "a step"])
def test_what_others_have_counted_since_the_look_is_no_loss(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    """A process that is held up after its look learns of higher numbers than it has seen there."""
    watch.look("test")
    look = gate.look

    def held_up() -> Seen:
        seen = look()
        KnownTimeline.objects.update(generation=F("generation") + 5)
        witness.exchange(seen.generation + 5)
        gate.exchange()
        return seen

    monkeypatch.setattr(gate, "look", held_up)
    monkeypatch.setattr(gate, "step_s", lambda: step_s)
    monkeypatch.setattr(stepping, "settle", lambda: None)
    watch.settle("test")
    assert not Recovery.objects.exists()


def test_a_loss_that_another_has_settled_since_the_look_is_not_settled_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E-mails that became due since would be unknown."""
    went_back()
    gate.known_generation()

    def wait_for_redis() -> None:
        """Another process recovers meanwhile."""
        monkeypatch.setattr(gate, "exchange", exchange)
        watch.settle("another")
        ship()

    exchange = gate.exchange
    monkeypatch.setattr(gate, "exchange", wait_for_redis)
    watch.settle("test")
    assert Recovery.objects.get().who == "another"
    assert Email.objects.get().state == EmailState.PENDING


def test_one_that_was_held_up_makes_nothing_unknown_after_another_has_ended_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease was over. What goes out since then is not forgotten."""
    went_back()
    distrust = reconcile.distrust

    def hang() -> None:
        """Another process takes the lease, and recovers."""
        monkeypatch.setattr(reconcile, "distrust", distrust)
        KnownTimeline.objects.update(lease_until=Now() - timedelta(seconds=1))
        watch.settle("another")
        ship()
        leases.claim(1, uuid4())

    monkeypatch.setattr(reconcile, "distrust", hang)
    with pytest.raises(gate.LeaseLost):
        watch.settle("test")
    assert Recovery.objects.filter(who="another").exists()
    assert Email.objects.get().state == EmailState.CLAIMED
