"""A step of PostgreSQL's clock: what is refused until it is settled, and what is put right.

The clock of the tests' server cannot be stepped. Instead everything is written as it was before a step: rows, and what
this process has read.
"""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.models import F
from django.db.models.functions import Now
from psycopg.types.range import TimestamptzRange

from tests.integration.mail.shipments import ship
from weir.postgres import statements
from weir.postgres.timeline import gate, steps
from weir.postgres.timeline.models import KnownTimeline
from weir.ratelimit import site_settings, slots
from weir.ratelimit.admission import admit
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.slots import SlotTooFar
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.maintenance import sweep
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.mail.sending import leases, runner
from weir.workers.processes.models import Process
from weir.workers.recovery import watch
from weir.workers.recovery.models import Recovery
from weir.workers.recovery.signals import postgresql_clock_stepped

pytestmark = pytest.mark.usefixtures("valkey")
SITE = "site.test"
HOUR = timedelta(hours=1)
both_ways = pytest.mark.parametrize("step", [HOUR, -HOUR])
refused = pytest.raises(OperationalError, match="PostgreSQL's clock does not say what was expected")


@pytest.fixture(autouse=True)
def _settled_by_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread settles anything meanwhile."""
    monkeypatch.setattr(gate._memory, "settle", None)


def stepped(step: timedelta) -> None:
    """Set the sites, and what this process knows, as if the clock was stepped by this since."""
    watch.look("test")
    [reading] = [gate._memory.reading]
    assert reading
    gate._memory.reading = reading._replace(database_s=reading.database_s - step.total_seconds())
    for site in Site.objects.all():
        Site.objects.filter(pk=site.pk).update(
            **{name: getattr(site, name) - step for name in ("next_start", "backed_off_until") if getattr(site, name)}
        )


def seconds_until(moment: datetime | None) -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM %s - clock_timestamp())::float8", [moment])
        return float(cursor.fetchone()[0])


@both_ways
def test_nothing_is_granted_until_it_is_settled(step: timedelta) -> None:
    held = slots.reserve(SITE)
    ship()  # where nothing waits, a plan need not ask
    stepped(step)
    grants: list[Callable[[], object]] = [
        lambda: slots.reserve(SITE),
        lambda: slots.confirm(held),
        lambda: leases.claim(1, uuid4()),
        lambda: admit(SITE, 0),
    ]
    for grant in grants:
        with refused:
            grant()
    watch.settle("test")
    assert not slots.confirm(held)
    assert slots.confirm(slots.reserve(SITE))
    assert not Recovery.objects.exists()


@both_ways
def test_sites_keep_their_interval_and_are_not_kept_waiting(step: timedelta) -> None:
    site_settings.set_rate(SITE, "1/m")
    slots.reserve(SITE)
    stepped(step)
    watch.settle("test")
    with pytest.raises(SlotTooFar) as too_far:
        slots.reserve(SITE, max_wait=0)
    assert 58 < too_far.value.retry_after < 62


def test_a_slow_site_keeps_the_time_of_its_next_start() -> None:
    """An interval from now would be a day later."""
    site_settings.set_rate(SITE, "1/d")
    Site.objects.update(next_start=Now() + timedelta(minutes=5))
    stepped(HOUR)
    watch.settle("test")
    assert 290 < seconds_until(Site.objects.get().next_start) < 301


@both_ways
def test_a_back_off_lasts_as_long_as_the_site_has_said(step: timedelta) -> None:
    slots.reserve(SITE)
    site_settings.back_off(SITE, 600, slot=1)
    stepped(step)
    watch.settle("test")
    assert 590 < seconds_until(Site.objects.get().backed_off_until) < 605


def test_what_was_due_is_due_and_what_is_for_later_is_not() -> None:
    """The clock was set back: what was due would have to wait for an hour."""
    request_fetches([f"http://site.test/{name}" for name in ("due", "held", "retried", "later")])
    Fetch.objects.filter(url__endswith="held").update(
        state="reserved", slot_id=1, lease_until=Now() + HOUR, not_before=Now() + HOUR - timedelta(seconds=5)
    )
    Fetch.objects.filter(url__endswith="due").update(not_before=Now() + HOUR - timedelta(seconds=5))
    Fetch.objects.filter(url__endswith="retried").update(not_before=Now() + HOUR + timedelta(seconds=60), attempts=1)
    Fetch.objects.filter(url__endswith="later").update(not_before=Now() + 3 * HOUR)
    due, later, held = ship(), ship(), ship()
    Email.objects.filter(pk=held.pk).update(
        state="claimed", claim_token=uuid4(), claimed_until=Now() + HOUR, next_attempt_at=Now() + HOUR
    )
    Email.objects.filter(pk=due.pk).update(next_attempt_at=Now() + HOUR - timedelta(seconds=5))
    Email.objects.filter(pk=later.pk).update(next_attempt_at=Now() + 3 * HOUR)
    stepped(-HOUR)
    watch.settle("test")
    waits = {url[17:]: seconds_until(at) for url, at in Fetch.objects.values_list("url", "not_before")}
    assert waits == {
        "due": pytest.approx(-5, abs=3),
        "held": pytest.approx(-5, abs=3),  # it may be queued again
        "retried": pytest.approx(60, abs=3),
        "later": pytest.approx(3 * 3600, abs=3),
    }
    assert [email.pk for email in Email.objects.due()] == [due.pk]
    assert seconds_until(Email.objects.get(pk=held.pk).next_attempt_at) < 1


@both_ways
def test_leases_last_as_long_as_they_were_taken_for(step: timedelta) -> None:
    """And no relay is asked again after it has forgotten the key."""
    request_fetches(["http://site.test/"])
    Fetch.objects.update(state="reserved", slot_id=1, lease_until=Now() + timedelta(seconds=30) - step)
    ship()
    [email] = leases.claim(1, uuid4())
    leases.begin(email, "relay", timedelta(days=1))
    Email.objects.update(sending_since=F("sending_since") - step, ask_until=F("ask_until") - step)
    asked_until = Email.objects.get().ask_until
    Process.objects.create(kind="worker", name="w", host="h", pid=1, turned_at=Now() - step)
    stepped(step)
    watch.settle("test")
    assert seconds_until(Fetch.objects.get().lease_until) == pytest.approx(30, abs=3)
    assert seconds_until(Email.objects.get().sending_since) == pytest.approx(0, abs=3)
    now_until = Email.objects.get().ask_until
    assert asked_until
    assert now_until
    assert now_until - asked_until - min(step, timedelta()) < timedelta(seconds=1)
    assert seconds_until(Process.objects.get().turned_at) == pytest.approx(0, abs=3)


def test_one_that_is_killed_changes_nothing_and_another_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate stays closed until everything is put right, once."""

    def die(*_arguments: object, **_options: object) -> None:
        raise OperationalError("killed")

    site_settings.set_rate(SITE, "1/d")
    Site.objects.update(next_start=Now() + timedelta(minutes=5))
    stepped(HOUR)
    with monkeypatch.context() as patched:
        patched.setattr("weir.workers.recovery.signals.postgresql_clock_stepped.send", die)
        with pytest.raises(OperationalError, match="killed"):
            watch.settle("test")
    assert KnownTimeline.objects.get().closed_because == "PostgreSQL's clock was stepped by +3600.0 s."
    KnownTimeline.objects.update(lease_until=None)
    watch.settle("another")
    watch.settle("a third one")
    known = KnownTimeline.objects.get()
    assert (known.steps, known.closed_because, known.step_s) == (1, "", None)
    assert 290 < seconds_until(Site.objects.get().next_start) < 301


def test_a_recovery_by_hand_settles_a_step_as_well() -> None:
    """No process settles it once more."""
    slots.reserve(SITE)
    stepped(HOUR)
    seen = gate.look()
    assert gate.close("PostgreSQL's clock was stepped by +3600.0 s.", seen, gate.step_s())
    KnownTimeline.objects.update(lease_until=None)
    call_command("recover", "--why", "restored")
    watch.settle("test")
    known = KnownTimeline.objects.get()
    assert (known.steps, known.closed_because, known.step_s) == (1, "", None)


def test_others_take_what_was_settled_for_granted() -> None:
    """A process whose last reading is from before the step does not settle it once more."""
    stepped(HOUR)
    KnownTimeline.objects.update(steps=F("steps") + 1)
    watch.settle("test")
    assert gate.step_s() == 0.0
    assert slots.reserve(SITE)
    assert KnownTimeline.objects.get().steps == 1


@pytest.mark.parametrize("begin", [sweep.sweep, runner.send_due])
def test_a_round_whose_first_statement_was_on_its_way_for_long_goes_on(
    monkeypatch: pytest.MonkeyPatch, begin: Callable[[], object]
) -> None:
    late = come_late(monkeypatch, 1)
    begin()
    assert not late


def come_late(monkeypatch: pytest.MonkeyPatch, times: int) -> list[TimestamptzRange]:
    """Let so many statements reach PostgreSQL ten seconds late; returns those that are still to come."""
    slots.reserve(SITE)
    assert gate._memory.reading
    late = [steps.expected(gate._memory.reading, steps.now() - 10)] * times
    asked = statements._gate[0]._replace(clock=lambda: late.pop() if late else gate.clock())
    monkeypatch.setattr(statements, "_gate", [asked])
    return late


@pytest.mark.parametrize("times", [1, 2])
def test_a_statement_that_was_on_its_way_for_long_is_tried_once_more(
    monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """It grants nothing, and is no step."""
    late = come_late(monkeypatch, times)
    with nullcontext() if times == 1 else refused:
        slots.reserve(SITE)
    assert not late
    assert Slot.objects.count() == (2 if times == 1 else 1)
    assert KnownTimeline.objects.get().steps == 0


def test_what_another_has_settled_since_the_look_is_not_settled_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause would end an hour too soon."""
    slots.reserve(SITE)
    Site.objects.update(paused_until=Now() + 3 * HOUR)
    stepped(-HOUR)
    reading = gate._memory.reading

    def wait_for_redis() -> None:
        """Another process settles it meanwhile."""
        monkeypatch.setattr(gate, "exchange", exchange)
        watch.settle("another")
        gate._memory.reading, gate._memory.step_s = reading, -HOUR.total_seconds()

    exchange = gate.exchange
    monkeypatch.setattr(gate, "exchange", wait_for_redis)
    watch.settle("test")
    assert KnownTimeline.objects.get().steps == 1
    assert seconds_until(Site.objects.get().paused_until) == pytest.approx(2 * 3600, abs=5)


def test_it_may_take_longer_than_other_statements() -> None:
    """Whole tables are written, whose size nothing bounds."""

    def sleep(**_signal: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.3)")

    slots.reserve(SITE)
    stepped(HOUR)
    postgresql_clock_stepped.connect(sleep)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '200ms'")
        watch.settle("test")
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() == ("200ms",)
    finally:
        postgresql_clock_stepped.disconnect(sleep)
        connection.close()
    assert KnownTimeline.objects.get().steps == 1
