"""The work of fetches, for a fixed number of them: a tick of dispatch, the claims of its messages, and their storing.

A hundred sites are due, each with plenty of queued fetches; all others are reserved for an hour. The benchmark measures
Weir's own code with its commits, without a network: messages are taken from dispatch, and every answer is a page.
"""

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from django.db import connection

from benchmarks import database
from benchmarks.growth import curves
from benchmarks.growth.curves import takes_ms
from benchmarks.scale import explained, tables
from weir.conf import settings
from weir.ratelimit import clock
from weir.ratelimit.pacing import Confirmation
from weir.workers import publish, task_names
from weir.workers.fetches.dispatch import DELIVERY, LONGEST_EXTRA, dispatch
from weir.workers.fetches.fetcher.claim import claim
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import FetchOutcome, Job
from weir.workers.fetches.models import FetchState

DUE_SITES = 100
A_ROUND = 10  # fetches of each due site that a tick reserves, at most
PAGE = b"w" * 2_000
SITES = """
    INSERT INTO weir_ratelimit_site (id, name, "interval", burst, has_backlog, covers_subdomains, next_start)
    SELECT n, 'site-' || n || '.bench', interval '333 ms', 1, true, false, clock_timestamp() + interval '1 hour'
    FROM generate_series({before} + 1, {size}) AS n
"""
FETCHES = f"""
    INSERT INTO weir_fetches_fetch ({tables.COLUMNS}, not_before)
    SELECT 'http://site-' || site || '.bench/' || n, '', 0, site, 'queued', {{priority}}, 0, 5, '[]', '', '', '', '',
        now() + {{due_in}}
    FROM generate_series({{before}} + 1, {{size}}) AS n, LATERAL (SELECT n % {{sites}} + 1 AS site) AS drawn
"""
NOW = {"due_in": "interval '0'", "priority": "n % 3"}
TOMORROW = {"due_in": "interval '1 day'", "priority": "9"}
# For all rounds of a measurement.
FOR_DUE_SITES = FETCHES.format(before=0, size=DUE_SITES * A_ROUND * (1 + curves.ROUNDS), sites=DUE_SITES, **NOW)
RESERVED = f"UPDATE weir_ratelimit_site SET next_start = now() + interval '1 hour' WHERE id <= {DUE_SITES}"
DUE = f"""
    UPDATE weir_ratelimit_site SET next_start = clock_timestamp(), has_backlog = true, due_at = NULL
    WHERE id <= {DUE_SITES}
"""
# The statements of a tick whose plans are written, with parameters that are not recorded, or differ from the tick's.
EXPLAINED: dict[str, dict[str, object]] = {
    "in_hand": {"delivery": DELIVERY, "horizon": settings.WEIR_LOOKAHEAD + LONGEST_EXTRA},
    "dispatch": {"after": 0},
}
Times = dict[str, list[float]]


def costs(of: str, size: int, plans: Path) -> Iterator[tuple[str, float]]:
    """Yield the costs of a tick that finds nothing to do, and of each step of 1,000 fetches, in ms."""
    database.run_at_length(RESERVED)
    with publish.taken_by(lambda *_message: None), explained.recorded():
        yield "tick", takes_ms(dispatch)
    for statement, parameters in EXPLAINED.items():
        explained.write_plan(plans, f"{of}_{statement}_at_{size}", "weir.workers.fetches", statement, parameters)
    database.run_at_length(FOR_DUE_SITES)
    database.run_at_length("VACUUM ANALYZE weir_fetches_fetch")
    times: Times = {"dispatch": [], "claim": [], "store": []}
    for _ in range(1 + curves.ROUNDS):
        _fetch(times)
    for step, of_step in times.items():
        yield f"{step}_1000", median(of_step[1:]) * 1e6
    yield "fetch_1000", median(map(sum, list(zip(*times.values(), strict=True))[1:])) * 1e6


def _fetch(times: Times) -> None:
    """Reserve, claim and store what the due sites may have, and record how many seconds each step took for a fetch."""
    with connection.cursor() as cursor:
        cursor.execute(DUE)
    messages: list[list[int]] = []

    def take(name: str, arguments: object, _options: object) -> None:
        if name == task_names.FETCH_BATCH:
            messages.extend(arguments)  # type: ignore[arg-type]

    began = perf_counter()
    with publish.taken_by(take):
        dispatch()
        dispatched = perf_counter()
        jobs = [job for message in messages for job in claim(message, Confirmation(asked_at=clock.now()))]
        claimed = perf_counter()
        stored = store([_page_of(job) for job in jobs])
        ended = perf_counter()
    if len(stored) < DUE_SITES:
        raise AssertionError(f"Only {len(stored)} fetches were stored for {DUE_SITES} sites")
    for step, took in (("dispatch", dispatched - began), ("claim", claimed - dispatched), ("store", ended - claimed)):
        times[step].append(took / len(stored))


def _page_of(job: Job) -> FetchOutcome:
    return FetchOutcome(
        fetch_id=job.fetch_id, slot_id=job.slot_id, state=FetchState.DONE, status_code=200, content=PAGE,
        headers="[]", lateness_ms=1.0, elapsed_ms=100.0,
    )  # fmt: skip
