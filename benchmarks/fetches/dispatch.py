"""Dispatch from a backlog of a million fetches at 1,000 sites: slots a second, messages to the broker included.

The peer is throttled-py's GCRA in Redis, which is asked for a start at each of the sites in turn, one call a start, and
refuses none. It writes nothing to disk, and sends no messages.
"""

import os
from contextlib import closing
from itertools import cycle
from pathlib import Path

from django.db import connection

from benchmarks import broker, database
from benchmarks.figures import Figure
from benchmarks.reservations import limiters
from benchmarks.reservations.scenarios import Scenario
from benchmarks.rounds import middle, rate, ratio, take_turns
from weir.workers.fetches.dispatch import dispatch

SHARE = float(os.environ.get("WEIR_BENCH_SHARE", "1"))  # of the backlog; use less while developing
BACKLOG = int(1_000_000 * SHARE)
SITES = 1_000
ROUNDS = 7
CALLS = 5_000  # of the peer, a round
UNREFUSED = Scenario(title="Starts at all sites", prefix="dispatch", sites=SITES, interval_s=None, turn_s=0.0)

FILL = f"""
    TRUNCATE weir_fetches_fetchbody, weir_fetches_fetch, weir_ratelimit_slot, weir_ratelimit_site
        RESTART IDENTITY CASCADE;
    INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
    SELECT 'site-' || n || '.bench', interval '100 ms', 1, true, false FROM generate_series(1, {SITES}) AS n;
    INSERT INTO weir_fetches_fetch (
        url, hop_url, redirects, site_id, state, priority, attempts, max_attempts, headers, etag, last_modified, error,
        on_done
    )
    SELECT
        'http://site-' || (n % {SITES} + 1) || '.bench/' || n, '', 0, n % {SITES} + 1, 'queued', n % 3, 0, 5, '[]',
        '', '', '', ''
    FROM generate_series(1, {BACKLOG}) AS n;
    ANALYZE;
"""

# Does what fetchers would have done with the slots of the last round.
FETCHED = (
    "UPDATE weir_fetches_fetch SET state = 'done', status_code = 200, finished_at = now() WHERE state = 'reserved'"
)


def measure(_folder: Path) -> list[Figure]:
    """Return the slots a second of dispatches of 20,000 slots, which begin with all sites due, beside the peer."""
    sent: list[int] = []
    with connection.cursor() as cursor, closing(limiters.ThrottledPy(UNREFUSED)) as peer:
        database.run_at_length(FILL)
        sites = cycle(UNREFUSED.names)

        def ours() -> float:
            cursor.execute(FETCHED)  # otherwise fetchers are behind, and dispatch reserves nothing
            cursor.execute("UPDATE weir_ratelimit_site SET next_start = clock_timestamp()")
            broker.empty()  # while many messages wait, dispatch reserves nothing
            a_call = rate(1, lambda: sent.append(dispatch()))
            if not sent[-1]:
                raise AssertionError("Dispatch had nothing to reserve: the backlog is too small.")
            return sent[-1] * a_call

        def ask() -> None:
            granted = sum(peer.ask(next(sites)) is not None for _ in range(CALLS))
            if granted != CALLS:
                raise AssertionError(f"throttled-py was to refuse none, and refused {CALLS - granted}.")

        rounds = take_turns(ROUNDS, ours, lambda: rate(CALLS, ask))
        cursor.execute(
            "TRUNCATE weir_fetches_fetchbody, weir_fetches_fetch, weir_ratelimit_slot, weir_ratelimit_site CASCADE"
        )
    broker.empty()
    return [
        Figure(name="dispatch_backlog", value=BACKLOG, unit="fetches"),
        Figure(name="dispatch_slots_a_call", value=sent[-1], unit="slots"),
        Figure(name="dispatch", value=middle(rounds, 0), unit="slots/s"),
        Figure(name="dispatch_throttled_py", value=middle(rounds, 1), unit="starts/s"),
        Figure(name="dispatch_vs_throttled_py", value=ratio(rounds, 0, 1), unit="x"),
    ]
