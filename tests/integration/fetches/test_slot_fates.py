"""Everything that can happen to a slot ends in the fate that its holder would name: by the functions that do it."""

import math
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from tests.integration.fetching import SITE, queue_pages, reserve_all
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Slot
from weir.ratelimit.pacing import Confirmation
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.fetcher import claim as claiming
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import Answer, Disallowed, Event, Failure, Job, Snoozed
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

LONG = timedelta(seconds=30)


def reserved(pages: int = 1) -> None:
    """Reserve a slot for each page, in a run that lasts for half a minute more."""
    site_settings.set_rate(SITE, "10/s", grace=LONG)
    queue_pages(pages)
    reserve_all()


def begin_later() -> None:
    """Make all slots begin ten seconds later."""
    later = timedelta(seconds=10)
    Slot.objects.update(start_time=F("start_time") + later, use_until=F("use_until") + later)


def begin_earlier() -> None:
    """End the runs of all slots, and all leases."""
    earlier = timedelta(minutes=2)
    Slot.objects.update(start_time=F("start_time") - earlier, use_until=F("use_until") - earlier)
    Fetch.objects.filter(lease_until__isnull=False).update(lease_until=Now() - timedelta(seconds=1))


def claimed(pages: int = 1) -> list[Job]:
    """Let a fetcher hold a fetch for each slot."""
    reserved(pages)
    return claim()


def claim() -> list[Job]:
    ids = list(Slot.objects.order_by("pk").values_list("pk", flat=True))
    return claiming.claim(ids, Confirmation(asked_at=math.inf))


def end(event: Event) -> None:
    """Store the event with which an attempt ended."""
    store([judge(event, max_body=100, chance=0.5)])


def answered(job: Job) -> None:
    end(Answer(job=job, status_code=200, headers=(), body=b"", lateness_ms=1.0, elapsed_ms=1.0))


def answer() -> None:
    [job] = claimed()
    answered(job)


def redirect() -> None:
    [job] = claimed()
    to = ((b"Location", b"http://other.example/"),)
    end(Answer(job=job, status_code=302, headers=to, body=b"", lateness_ms=1.0, elapsed_ms=1.0))


def time_out() -> None:
    [job] = claimed()
    end(Failure(job=job, error="no complete answer within 30 s", lateness_ms=1.0, elapsed_ms=30_000.0))


def no_connection() -> None:
    [job] = claimed()
    end(Failure(job=job, error="connection refused"))


def no_connection_in_time() -> None:
    [job] = claimed()
    begin_earlier()
    end(Failure(job=job, error="no connection within 10 s"))


def snooze() -> None:
    [job] = claimed()
    end(Snoozed(job=job))


def disallow() -> None:
    [job] = claimed()
    end(Disallowed(job=job, error="robots.txt of it disallows it"))


def run_over() -> None:
    [job] = claimed()
    begin_earlier()
    end(Snoozed(job=job))


def message_late() -> None:
    reserved()
    Slot.objects.update(use_until=Now() - timedelta(seconds=1))
    assert not claim()


def message_lost() -> None:
    reserved()
    begin_earlier()
    assert sweep() == 1


def fetcher_lost() -> None:
    claimed()
    begin_earlier()
    assert sweep() == 1


def nothing_yet() -> None:
    claimed()


def cancelled_in_the_queue() -> None:
    reserved()
    cancel(Fetch.objects.get().pk)


def cancelled_with_successor() -> None:
    reserved()
    begin_later()
    queue_pages(1)
    cancel(Fetch.objects.exclude(slot_id=None).get().pk)
    [job] = claim()
    answered(job)


def cancelled_in_hand() -> None:
    [job] = claimed()
    begin_later()
    assert cancel(job.fetch_id)
    end(Snoozed(job=job))  # it is not stored for any fetch
    begin_earlier()


def cancelled_in_hand_with_successor() -> None:
    [job] = claimed()
    begin_later()
    queue_pages(1)
    assert cancel(job.fetch_id)
    [(successor, _)] = claiming.successors_of([job])
    answered(successor)


def recalled_in_the_queue() -> None:
    reserved()
    begin_later()
    site_settings.pause(SITE)


def recalled_before_the_claim() -> None:
    recalled_in_the_queue()
    assert not claim()


def recalled_in_hand() -> None:
    [job] = claimed()
    begin_later()
    site_settings.set_rate(SITE, "5/s")
    end(Snoozed(job=job))


def recalled_and_lost() -> None:
    claimed()
    begin_later()
    site_settings.back_off(SITE, 60)
    Fetch.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert sweep() == 1


def recalled_after_its_use() -> None:
    [job] = claimed()
    answered(job)
    site_settings.pause(SITE)


def throttled() -> None:
    slots.finish(alone())


def throttled_and_given_back() -> None:
    slots.release(alone())


def throttled_and_lost() -> None:
    alone()
    begin_earlier()


def handed_back_behind_others() -> None:
    site_settings.set_rate(SITE, "10/s", grace=LONG)
    run = slots.reserve(SITE, 3)
    slots.finish(run.slots[0].id, run.slots[1].id)
    slots.hand_back([run.slots[2].id], 1.0)


def alone() -> int:
    """Reserve a slot alone."""
    site_settings.set_rate(SITE, "10/s", grace=LONG)
    return slots.reserve(SITE).slots[0].id


WAYS: dict[Callable[[], None], list[str]] = {
    answer: ["used"],
    redirect: ["used"],
    time_out: ["used"],
    no_connection: ["given back"],
    no_connection_in_time: ["missed"],
    snooze: ["given back"],
    disallow: ["given back"],
    run_over: ["missed"],
    message_late: ["missed"],
    message_lost: ["missed"],
    fetcher_lost: ["used"],  # it is not known whether it was; the rate must count it
    nothing_yet: ["reserved"],
    cancelled_in_the_queue: ["given back"],
    cancelled_with_successor: ["used"],
    cancelled_in_hand: ["given back"],
    cancelled_in_hand_with_successor: ["used"],
    recalled_in_the_queue: ["void"],
    recalled_before_the_claim: ["void"],
    recalled_in_hand: ["void"],
    recalled_and_lost: ["used"],  # as above
    recalled_after_its_use: ["used"],
    throttled: ["used"],
    throttled_and_given_back: ["given back"],
    throttled_and_lost: ["unreported"],
    handed_back_behind_others: ["used", "used", "given back"],
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_has_its_fate(way: Callable[[], None]) -> None:
    """The row says it, whichever process wrote it."""
    way()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT weir_ratelimit_slot_fate(
                slot, site.recalled_slot, site.recalled_at, slot.use_until + interval '1 minute', clock_timestamp()
            )
            FROM weir_ratelimit_slot AS slot JOIN weir_ratelimit_site AS site ON site.id = slot.site_id
            ORDER BY slot.id
            """
        )
        assert [fate for (fate,) in cursor.fetchall()] == WAYS[way]


def test_each_fate_is_reached() -> None:
    """The ways above end in all existing fates."""
    assert {fate for fates in WAYS.values() for fate in fates} == {
        "reserved", "used", "given back", "missed", "void", "unreported"
    }  # fmt: skip
