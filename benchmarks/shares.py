"""Shares: how long one fetch waits for its slot beside the 50,000 of others at its site, and what a dispatch costs.

Dispatch runs once a second, as beat calls it; no fetcher runs. A probe is one fetch of a share of its own, asked for at
a random moment, one after the other at each site. Its time runs from the commit that queued it until the start of its
slot: fetchers keep to that. Beside it stands how long it would wait by age alone.
"""

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from django.db import connection, transaction

from benchmarks import broker, database
from benchmarks.figures import Figure, print_table
from demo.fakes.judge import percentile
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch

BACKLOG = int(os.environ.get("WEIR_BENCH_BACKLOG", "50000"))  # of all others, at each site
LASTS_S = float(os.environ.get("WEIR_BENCH_SECONDS", "150"))
SITES = 4  # of each case
ROUNDS = 20
MOST = 100  # fetches that one dispatch takes, where its cost is measured
ALL = "weir_fetches_fetchbody, weir_fetches_fetch, weir_ratelimit_slot, weir_ratelimit_site"
# `others` shares have the backlog together; their names come after, and before, that of the probe.
FILL = """
    INSERT INTO weir_fetches_fetch (url, hop_url, site_id, state, priority, max_attempts, share, not_before)
    SELECT 'http://' || site.name || '/' || n, '', site.id, 'queued', 0, 5, 's' || n %% %(others)s, now()
    FROM weir_ratelimit_site AS site, generate_series(1, %(backlog)s) AS n
    WHERE site.id = ANY(%(sites)s)
"""
# What fetchers would have done.
FETCHED = (
    "UPDATE weir_fetches_fetch SET state = 'done', status_code = 200, finished_at = now() WHERE state = 'reserved'"
)
WAITS = """
    SELECT extract(epoch FROM slot.start_time - probe.created_at)::float8
    FROM weir_fetches_fetch AS probe JOIN weir_ratelimit_slot AS slot ON slot.id = probe.slot_id
    WHERE probe.share = 'probe' AND probe.site_id = ANY(%s)
"""


@dataclass(kw_only=True)
class Case:
    """Some shares that wait at sites of a rate. The probe's share has the weight 1."""

    others: int
    per_s: int
    weight: int = 1  # of the others
    sites: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the name of its figures."""
        return f"shares_wait_{self.others}_of_weight_{self.weight}_at_{self.per_s}_per_s"

    def host(self, number: int) -> str:
        """Return the host of its site of this number."""
        return f"{number}.of-{self.others}-{self.weight}-{self.per_s}.bench"


CASES = (
    Case(others=1, per_s=1),
    Case(others=1, per_s=10),
    Case(others=1, per_s=100),
    Case(others=1, per_s=10, weight=10),
    Case(others=10, per_s=10),
    Case(others=100, per_s=10),
    Case(others=100, per_s=100),
    Case(others=10, per_s=10, weight=5),
)


def measure(_folder: Path) -> Iterator[Figure]:
    """Return the waits of the probes, and the times of dispatches from queues of several sizes."""
    database.run_at_length(f"TRUNCATE {ALL} RESTART IDENTITY CASCADE")
    for case in CASES:
        for number in range(SITES):
            weights = {f"s{other}": case.weight for other in range(case.others)}
            site_settings.set_rate(
                case.host(number), f"{case.per_s}/s", obeys_robots=False, weights=weights if case.weight > 1 else None
            )
        case.sites = list(Site.objects.filter(name__endswith=case.host(0)[1:]).values_list("pk", flat=True))
        _fill(case.sites, case.others, BACKLOG)
    _settle()
    _probe()
    rows = []
    with connection.cursor() as cursor:
        for case in CASES:
            cursor.execute(WAITS, [case.sites])
            waits = [row[0] for row in cursor.fetchall()]
            turn_s = case.others * case.weight / case.per_s
            texts = (case.others, case.weight, f"{case.per_s}/s", len(waits), f"{percentile(waits, 50):.1f}")
            rows.append(
                [*map(str, texts), f"{percentile(waits, 99):.1f}", f"{turn_s:.1f}", f"{BACKLOG / case.per_s:,.0f}"]
            )
            yield Figure(name=f"{case.name}_p50", value=percentile(waits, 50), unit="s")
            yield Figure(name=f"{case.name}_p99", value=percentile(waits, 99), unit="s")
            yield Figure(name=f"{case.name}_by_age", value=BACKLOG / case.per_s, unit="s")
    headings = ("others", "weight", "rate", "probes", "p50 s", "p99 s", "a turn of each s", "by age s")
    print_table(f"One fetch beside {BACKLOG:,} of others", headings, rows)
    yield from _costs()
    database.run_at_length(f"TRUNCATE {ALL} RESTART IDENTITY CASCADE")
    broker.empty()


def _fill(sites: list[int], others: int, backlog: int) -> None:
    with database.hastily(), database.set_for_block(statement_timeout="0"), connection.cursor() as cursor:
        cursor.execute(FILL, {"sites": sites, "others": others, "backlog": backlog})


def _settle() -> None:
    database.run_at_length(f"VACUUM ANALYZE {ALL}")
    Site.objects.update(has_backlog=True)


def _probe() -> None:
    """Ask for probes at all sites, each at a random moment after the last one has got its slot, and dispatch."""
    hosts = {site: case.host(number) for case in CASES for number, site in enumerate(case.sites)}
    chance = random.Random(7)  # noqa: S311  the same moments each time
    began = time.monotonic()
    ask_at = {site: began + 3 + 2 * chance.random() for site in hosts}
    asked: dict[int, int] = {}  # the site of each probe that waits
    tick_at = began
    with connection.cursor() as cursor:
        while time.monotonic() < began + LASTS_S or asked:
            now = time.monotonic()
            for site in [site for site, at in ask_at.items() if at <= now]:
                del ask_at[site]
                if now < began + LASTS_S:
                    with transaction.atomic():
                        asked[request_fetch(f"http://{hosts[site]}/", share="probe").pk] = site
            if now >= tick_at:
                tick_at += 1
                cursor.execute(FETCHED)
                broker.empty()
                dispatch()
                cursor.execute(
                    "SELECT id FROM weir_fetches_fetch WHERE id = ANY(%s) AND state <> 'queued'", [list(asked)]
                )
                for (fetch,) in cursor.fetchall():
                    ask_at[asked.pop(fetch)] = time.monotonic() + 2 * chance.random()
            time.sleep(max(0.0, min([tick_at, *ask_at.values()]) - time.monotonic()))


def _costs() -> Iterator[Figure]:
    """Return how long it takes to find the next fetches of one site, whatever its backlog is."""
    for others, backlog in ((1, BACKLOG), (1, 20 * BACKLOG), (100, 20 * BACKLOG), (20 * BACKLOG, 20 * BACKLOG)):
        database.run_at_length(f"TRUNCATE {ALL} RESTART IDENTITY CASCADE")
        site_settings.set_rate("one.bench", "50/s")
        site = Site.objects.get()
        _fill([site.pk], others, backlog)
        _settle()
        with connection.cursor() as cursor:
            times = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                cursor.execute(
                    "SELECT count(*) FROM weir_fetches_in_turn(%s, %s, now(), NULL, 's', 0)", [site.pk, MOST]
                )
                times.append((time.perf_counter() - began) * 1_000)
                if cursor.fetchone()[0] != MOST:
                    raise AssertionError("There was too little to do.")
        yield Figure(name=f"shares_next_{MOST}_of_{backlog}_of_{others}", value=median(times), unit="ms")
