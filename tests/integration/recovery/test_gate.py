"""The gate: PostgreSQL grants nothing where it may have forgotten what it granted."""

from collections.abc import Callable
from uuid import uuid4

import pytest
import redis
from django.core.management import call_command
from django.db import OperationalError
from django.db.models.functions import Now

from tests import refunds
from tests.integration.conftest import StartPython
from tests.integration.mail.shipments import ship
from tests.set_up import needs_migrations
from weir.notifications import inbox, reconcile
from weir.notifications.models import Installation, UnreadCount
from weir.postgres.timeline import gate
from weir.postgres.timeline.models import KnownTimeline
from weir.ratelimit import clock, slots
from weir.ratelimit.held import elsewhere
from weir.ratelimit.pacing import Confirmation
from weir.redis_link.keys import keys
from weir.workers.effects import kinds
from weir.workers.effects.models import Effect
from weir.workers.effects.performing.attempts import EffectAttempt
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.events import log
from weir.workers.events.models import EventLog
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.claim import claim
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import leases
from weir.workers.recovery import watch, witness
from weir.workers.recovery.models import Recovery

pytestmark = pytest.mark.usefixtures("valkey")
SITE = "site.test"
refused = pytest.raises(OperationalError, match="PostgreSQL may have forgotten")


def promoted() -> None:
    """Another timeline."""
    KnownTimeline.objects.update(timeline="00000009")


def copied() -> None:
    """Another cluster, as with a dump that was restored elsewhere, by processes that have seen no generation yet."""
    KnownTimeline.objects.update(cluster="1/2")


def went_back() -> None:
    """A lower generation than this process has seen."""
    gate.remember(KnownTimeline.objects.get().generation + 1)


def recovering() -> None:
    """A recovery has begun and not ended."""
    KnownTimeline.objects.update(closed_because="It went back.")


@pytest.fixture(params=[promoted, copied, went_back, recovering])
def lose(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Give PostgreSQL another history than before."""
    call: Callable[[], None] = request.param
    return call


def test_no_slot_is_reserved_or_confirmed(lose: Callable[[], None]) -> None:
    held = slots.reserve(SITE)
    lose()
    with refused:
        slots.reserve(SITE)
    with refused:
        slots.confirm(held)
    with refused:
        elsewhere.use([held.slots[0].id])
    with refused:
        slots.recalls(1.0)


def test_no_given_back_slot_is_taken(lose: Callable[[], None]) -> None:
    slots.reserve(SITE)
    slots.release(slots.reserve(SITE).slots[0].id)
    lose()
    with refused:
        slots.reserve(SITE)


def test_no_fetch_is_dispatched_or_claimed(lose: Callable[[], None]) -> None:
    request_fetches([f"https://{SITE}/1"])
    assert dispatch() == 1
    held = [slot_id for slot_id in Fetch.objects.values_list("slot_id", flat=True) if slot_id]
    request_fetches([f"https://other-{SITE}/2"])
    lose()
    with refused:
        dispatch()
    with refused:
        claim(held, Confirmation(asked_at=clock.now()))


def test_no_event_gets_an_id(lose: Callable[[], None]) -> None:
    """A reader may have seen events with the ids that come next."""
    EventLog.objects.create(key=uuid4())
    lose()
    with refused:
        log.append()


def test_no_email_is_claimed_or_begun(lose: Callable[[], None]) -> None:
    ship()
    [claimed] = leases.claim(1, uuid4())
    ship()
    lose()
    with refused:
        leases.claim(1, uuid4())
    with refused:
        leases.begin(claimed, "relay", None)
    assert set(Email.objects.values_list("state", flat=True)) == {EmailState.CLAIMED, EmailState.PENDING}


def test_no_effect_is_claimed_or_begun(lose: Callable[[], None]) -> None:
    refunds.queue(refunds.BLIND, 1)
    [claimed] = LEDGER.claim(1, uuid4())
    refunds.queue(refunds.BLIND, 1)
    lose()
    with refused:
        LEDGER.claim(1, uuid4())
    with refused:
        EffectAttempt(claimed, kinds.get(refunds.BLIND)).begin()
    assert set(Effect.objects.values_list("state", flat=True)) == {"claimed", "pending"}


def test_no_email_expires(lose: Callable[[], None]) -> None:
    """It may have been sent: the recovery makes it unknown."""
    ship()
    Email.objects.update(expires_at=Now())
    lose()
    with refused:
        leases.end_expired(1.0)
    assert Email.objects.get().state == EmailState.PENDING


@pytest.mark.parametrize("lose", [promoted, went_back, recovering], indirect=True)  # a copy has other keys in Redis
def test_unread_numbers_are_counted(lose: Callable[[], None]) -> None:
    reconcile.run_pass()
    inbox.notify(1, "news", "Hello")
    UnreadCount.objects.create(user_id=1, unread_count=7, epoch=0)
    assert inbox.unread_count(1) == 8
    lose()
    assert inbox.unread_count(1) == 1


def test_a_database_that_was_emptied_is_known() -> None:
    """Django's `flush` empties the gate's table, too, and so do users' tests."""
    slots.reserve(SITE)
    witness.exchange(gate.look().generation)
    installation = Installation.objects.get()
    call_command("flush", interactive=False, verbosity=0)
    installation.save(force_insert=True)  # as other tests expect
    assert slots.reserve(SITE)
    watch.settle("test")
    assert not Recovery.objects.exists()


@needs_migrations
def test_without_its_row_it_is_closed_until_migrate_has_written_it() -> None:
    """Processes wait, as where the database is away."""
    KnownTimeline.objects.all().delete()
    gate.forget()
    for ask in (lambda: slots.reserve(SITE), gate.look):
        with pytest.raises(OperationalError, match=r"manage\.py migrate"):
            ask()
    call_command("migrate", verbosity=0)
    assert slots.reserve(SITE)


def test_a_witness_that_says_what_is_no_number_of_ours_is_set_right(valkey: redis.Redis) -> None:
    """No statement would take it, and processes would remember it until they end."""
    valkey.set(keys().mark, "9" * 25)
    gate.exchange()
    number = gate.look().generation
    gate.exchange()
    assert valkey.get(keys().mark) == str(number).encode()


FORK = """
import os, threading
from weir.postgres.timeline import gate
from weir.workers.recovery import watch

held, is_over = threading.Event(), threading.Event()

def hold():
    with gate._memory.lock, gate._memory.asking, watch._settling:
        held.set()
        is_over.wait()

threading.Thread(target=hold).start()
held.wait()
if not (child := os.fork()):
    locks = gate._memory.lock, gate._memory.asking, watch._settling
    os._exit(not all(lock.acquire(timeout=1) for lock in locks))
is_over.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_waits_for_no_thread_of_its_parent(start_python: StartPython) -> None:
    """It has none of them."""
    assert start_python(FORK).communicate()[0].strip() == "0"
