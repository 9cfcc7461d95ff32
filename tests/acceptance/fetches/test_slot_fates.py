"""Fates of slots while fetchers are killed, sites recalled and fetches cancelled, judged by what the sites have seen.

A trigger of the test records which fetch had which slot, and how it left it. Together with the log of the sites, and
what the test itself did, that says what became of each slot. Of all this, `weir_ratelimit_slot_fate` reads only the
times of slots and recalls.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import Settings

from demo.fakes import site_log, sites
from tests.acceptance.conftest import Cluster, all_ended, set_rates, states, wait_for_progress
from tests.waiting import in_time, wait_for
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.pacing import CONFIRMED_FOR_S, HAND_OVER_MARGIN_S
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.reports.timeline import timeline
from weir.workers.history import rollup
from weir.workers.history.models import Watermark
from weir.workers.history.reports import totals

RATES = ("20/s", "10/s", "5/s", "2/s")
STEADY, RATED, PAUSED, CANCELLED = range(4)
SECONDS = 9  # of backlog
TOLERANCE = timedelta(milliseconds=50)  # between the clocks of kernel and database, and two readings of one
TRIGGER = """
CREATE TABLE test_holding (slot_id bigint, fetch_id bigint, path text, at timestamptz, what text);
CREATE FUNCTION test_note_holding() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF OLD.slot_id IS NOT NULL AND OLD.lease_until IS NOT NULL AND NEW.lease_until IS NULL THEN
        INSERT INTO test_holding VALUES (OLD.slot_id, OLD.id, substring(OLD.hop_url FROM '^https?://[^/]*(.*)$'),
            clock_timestamp(), CASE
                WHEN OLD.state = 'running' AND NEW.error LIKE 'its fetcher died%' THEN 'lost'
                ELSE 'left' END);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER test_holding AFTER UPDATE ON weir_fetches_fetch FOR EACH ROW EXECUTE FUNCTION test_note_holding();
"""


@dataclass
class Trace:
    """What is known of one slot without its fate."""

    slot: Slot
    left_at: datetime | None = None  # when the last of them left it
    was_lost: bool = False  # its fetcher was killed
    requests: int = 0


@contextmanager
def holdings_noted() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(TRIGGER)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER test_holding ON weir_fetches_fetch")
            cursor.execute("DROP FUNCTION test_note_holding; DROP TABLE test_holding")


def traces(site: Site, arrivals: list[site_log.Arrival]) -> dict[int, Trace]:
    """Return what is known of the slots of a site."""
    found = {slot.pk: Trace(slot) for slot in Slot.objects.filter(site=site)}
    holders: dict[str, list[tuple[Trace, datetime]]] = defaultdict(list)  # by path, one after the other
    with connection.cursor() as cursor:
        cursor.execute("SELECT slot_id, path, at, what FROM test_holding ORDER BY at")
        for slot_id, path, at, what in cursor.fetchall():
            if slot_id in found:
                trace = found[slot_id]
                holders[path].append((trace, at))
                trace.left_at = at
                trace.was_lost = what == "lost"
    for arrival in arrivals:
        at = datetime.fromtimestamp(arrival.at_ns / 1e9, tz=UTC)
        # The fetch was in one slot after the other: it left the request's slot at the end of the request.
        holder = next(trace for trace, left_at in holders[arrival.path] if left_at > at)
        assert holder.slot.start_time - TOLERANCE <= at <= holder.slot.use_until + TOLERANCE
        holder.requests += 1
    return found


def expected(trace: Trace, site: Site) -> set[str]:
    """Return the fate that the slot must have; two if only a clock's reading decides."""
    slot = trace.slot
    assert trace.requests <= 1, "two requests in one slot"
    if trace.requests or trace.was_lost:
        return {"used"}
    until = slot.use_until - timedelta(seconds=HAND_OVER_MARGIN_S)
    if site.recalled_at and slot.pk <= site.recalled_slot and site.recalled_at < slot.use_until:
        surely = slot.start_time > site.recalled_at + timedelta(seconds=CONFIRMED_FOR_S)
        if (surely and trace.left_at is None) or (trace.left_at and trace.left_at >= site.recalled_at):
            return {"void"}
    assert trace.left_at is not None, f"nobody was rid of {slot}"
    if abs(trace.left_at - until) < TOLERANCE:
        return {"given back", "missed"}
    return {"given back"} if trace.left_at <= until else {"missed"}


@pytest.mark.faults
def test_every_slot_of_the_timeline_has_its_fate(
    cluster: Cluster, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only slots of killed fetchers are used without a request; and no request has another fate."""
    settings.WEIR_FETCH_TIMEOUT, settings.WEIR_FETCH_CONNECT_TIMEOUT, settings.WEIR_FETCH_DNS_TIMEOUT = 3.0, 2.0, 1.0
    chance = random.Random("weir")  # noqa: S311  which are cancelled
    with holdings_noted(), sites.running(len(RATES), tmp_path) as running:
        intervals = set_rates(running, dict(zip(running.hosts, RATES, strict=True)))
        names = [f"{host}:{running.port}" for host in running.hosts]
        rollup.roll_up()  # the history begins
        Watermark.objects.update(rolled_until=Watermark.objects.get().rolled_until - timedelta(minutes=1))
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        fetches = [
            request_fetches(
                [running.url(place, f"/ok/{number}") for number in range(int(SECONDS / intervals[host]))],
                max_attempts=100,
            )
            for place, host in enumerate(running.hosts)
        ]
        wait_for_progress(20, 30, "the first fetches")
        cancelled = 0
        for round_ in range(3):
            cluster.kill("fetcher-1")
            site_settings.set_rate(names[RATED], ("20/s", "8/s", "10/s")[round_])
            cancelled += sum(cancel(fetch.pk) for fetch in chance.sample(fetches[CANCELLED][4 * round_ :], 5))
            cancelled += sum(cancel(fetch.pk) for fetch in fetches[STEADY][60 * round_ :: 7])
            if round_ == 1:
                site_settings.pause(names[PAUSED])
            wait_for_progress(20, 30, "fetches to go on")
            cluster.start_together("fetcher-1")
        site_settings.resume(names[PAUSED])
        wait_for(all_ended, 60, f"all fetches to end: {states()}")
        arrivals, _ = site_log.read_arrivals(running.log)
        counts: Counter[str] = Counter()
        lost = wrong = 0
        for place, name in enumerate(names):
            site = Site.objects.get(name=name)
            known = traces(site, [arrival for arrival in arrivals if arrival.host == running.hosts[place]])
            seen = timeline(site.pk)
            assert {slot.id for slot in seen.slots} == set(known), "the timeline shows all of the last minute"
            for slot in seen.slots:
                counts[slot.fate] += 1
                lost += slot.fate == "used" and not known[slot.id].requests
                if slot.fate not in expected(known[slot.id], site):
                    wrong += 1
                    print(slot, known[slot.id], site.recalled_slot, site.recalled_at)

    print(f"\n{dict(counts)}  requests: {len(arrivals)}  of killed fetchers: {lost}  cancelled: {cancelled}")
    assert wrong == 0
    assert counts["used"] == len(arrivals) + lost
    assert counts["unreported"] == 0
    assert Fetch.objects.filter(state="done").count() + cancelled == sum(map(len, fetches))
    monkeypatch.setattr(rollup, "trail_s", lambda: -60.0)  # as if all that were long over
    rollup.roll_up()
    assert {fate: number for (series, fate), number in totals().items() if series == "slots"} == dict(
        counts - Counter(reserved=counts["reserved"]) + Counter(unreported=counts["reserved"])
    )
    in_time(min(counts[fate] for fate in ("used", "given back", "void")) > 0, f"a kill or a recall came late: {counts}")
