"""Watches: a tick with 1,000,000 of them, with none due, with 1,000 due, and while each comes once in an hour.

`EXPLAIN (ANALYZE, BUFFERS)` of each statement is written to `<folder>/watches/<statement>.txt`.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from django.db import connection

from benchmarks import broker, database
from benchmarks.figures import Figure
from benchmarks.scale.explained import recorded, write_plan
from weir.workers import task_names
from weir.workers.watches import apps, asking, judging, tasks

SHARE = float(os.environ.get("WEIR_BENCH_SHARE", "1"))  # of these sizes; use less while developing
WATCHES = int(1_000_000 * SHARE)
SITES = int(10_000 * SHARE)
ENDED = int(200_000 * SHARE)  # fetches of earlier periods
DUE = 1_000
ROUNDS = 7
A_SECOND = max(1, WATCHES // 3_600)  # due ones, if each is asked for once in an hour
LOAD_S = 30
LEAD_S = 20  # in which the times are written
ALL = "weir_watches_watch, weir_fetches_fetchbody, weir_fetches_fetch, weir_ratelimit_slot, weir_ratelimit_site"
FILL = f"""
    TRUNCATE {ALL} RESTART IDENTITY CASCADE;
    INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
    SELECT 'site-' || n || '.bench', interval '100 ms', 1, false, false FROM generate_series(1, {SITES}) AS n;
    INSERT INTO weir_watches_watch (
        key, dedupe_key, url, host, priority, revalidate, every, jitter, period, tell_first, on_change, next_at
    )
    SELECT
        url, md5(url)::uuid, url, host, 0, true, interval '1 hour', 0.1, interval '1 hour', false, 'bench.changed',
        now() + interval '1 day' * (1 + random())
    FROM generate_series(1, {WATCHES}) AS n
    CROSS JOIN LATERAL (SELECT 'site-' || n % {SITES} + 1 || '.bench' AS host) AS of_site
    CROSS JOIN LATERAL (SELECT 'https://' || host || '/' || n AS url) AS page;
    INSERT INTO weir_fetches_fetch (
        url, hop_url, site_id, state, priority, max_attempts, status_code, finished_at, on_done, on_done_called_at,
        dedupe_key
    )
    SELECT url, url, id % {SITES} + 1, 'done', 0, 5, 200, now(), 'weir.watches.keep_watch', now(), dedupe_key
    FROM weir_watches_watch WHERE id <= {ENDED};
"""
BECOME_DUE = f"UPDATE weir_watches_watch SET next_at = now() WHERE id % ({WATCHES} / {DUE}) = 0"
# What fetchers would have done: one body in ten has changed.
FETCHED = """
    WITH ended AS (
        UPDATE weir_fetches_fetch SET state = 'done', status_code = 200, finished_at = clock_timestamp()
        WHERE state = 'queued' AND NOT is_robots
        RETURNING id
    )
    INSERT INTO weir_fetches_fetchbody (fetch_id, content)
    SELECT id, decode(repeat('77', 2000), 'hex') || CASE WHEN id % 10 = 0 THEN 'x' ELSE '' END::bytea
    FROM ended
"""
COME_DUE = f"""
    CREATE TEMPORARY TABLE come AS
    SELECT id, clock_timestamp() + interval '{LEAD_S} s' + interval '{LOAD_S} s' * random() AS due
    FROM weir_watches_watch WHERE next_at > now() + interval '12 hours' LIMIT {A_SECOND * LOAD_S}
"""
LATENESS = """
    SELECT extract(epoch FROM watch.asked_at - come.due)::float8 * 1000
    FROM come JOIN weir_watches_watch AS watch USING (id) WHERE asked_at IS NOT NULL
"""
STATEMENTS = {
    "weir.workers.watches": ("due", "put_off", "judge", "keep_watch_has_work"),
    "weir.workers.fetches": ("enqueue_each", "take_watched", "settle_watched"),
}


def measure(folder: Path) -> list[Figure]:
    """Return the times of a tick, and how late watches were asked for by ticks that begin each second."""
    plans = folder / "watches"
    plans.mkdir(parents=True, exist_ok=True)
    database.run_at_length(FILL)
    database.run_at_length(f"VACUUM ANALYZE {ALL}")
    question = apps.KEEP_WATCH_HAS_WORK
    with recorded(), connection.cursor() as cursor:
        figures = [
            Figure(name="watches", value=WATCHES, unit="watches"),
            _takes("watches_question", lambda: question(on_done=task_names.KEEP_WATCH)),
            _takes("watches_tick_none_due", tasks.keep_watch),
        ]
        asked, judged = [], []
        for _ in range(ROUNDS):
            cursor.execute(BECOME_DUE)
            asked.append(_ms(asking.ask_due))
            cursor.execute(FETCHED)
            judged.append(_ms(judging.judge_ended))
            broker.empty()
        figures.append(Figure(name="watches_ask_1000", value=median(asked), unit="ms"))
        figures.append(Figure(name="watches_judge_1000", value=median(judged), unit="ms"))
        cursor.execute(BECOME_DUE)
        asking.ask_due()
        # Statistics as autovacuum would have them.
        cursor.execute("ANALYZE weir_fetches_fetch")
        cursor.execute(COME_DUE)
        cursor.execute("UPDATE weir_watches_watch AS watch SET next_at = due FROM come WHERE come.id = watch.id")
        cursor.execute("SELECT min(due) < clock_timestamp() FROM come")
        if cursor.fetchone()[0]:
            raise AssertionError("Writing the times took too long: some were late before the first tick.")
        _tick_each_second()
        cursor.execute(LATENESS)
        late = [row[0] for row in cursor.fetchall()]
        cursor.execute("UPDATE weir_watches_watch SET next_at = now() WHERE id <= 1000")
    for room, names in STATEMENTS.items():
        for name in names:
            write_plan(plans, name, room, name)
    if read := [name for names in STATEMENTS.values() for name in names if "Seq Scan on weir" in _text(plans, name)]:
        raise AssertionError(f"These read a whole table: {read}.")
    figures += [
        Figure(name="watches_due_a_second", value=A_SECOND, unit="watches/s"),
        Figure(name="watches_lateness_p50", value=median(late), unit="ms"),
        Figure(name="watches_lateness_p99", value=quantiles(late, n=100)[98], unit="ms"),
    ]
    database.run_at_length(f"TRUNCATE {ALL} RESTART IDENTITY CASCADE")
    broker.empty()
    return figures


def _tick_each_second() -> None:
    """Run ticks as beat does, until nothing is due any more."""
    until = time.monotonic() + LEAD_S + LOAD_S + 1
    while (began := time.monotonic()) < until or apps.KEEP_WATCH_HAS_WORK(on_done=task_names.KEEP_WATCH)[0]:
        tasks.keep_watch()
        time.sleep(max(0.0, began + 1 - time.monotonic()))


def _takes(name: str, call: Callable[[], object]) -> Figure:
    return Figure(name=name, value=median(_ms(call) for _ in range(ROUNDS)), unit="ms")


def _ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000


def _text(plans: Path, name: str) -> str:
    return (plans / f"{name}.txt").read_text()
