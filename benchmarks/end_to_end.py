"""End to end: fetches a second over 1,000 sites at 3/s each, results stored, against Scrapy on the same sites.

Both run with the fake sites (and for Weir PostgreSQL, Valkey, beat and dispatch) on whatever the machine has. They
take turns; the rate is what the sites' own log saw in the middle of each turn.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import redis
from django.conf import settings
from django.db import connection

from benchmarks.figures import Figure
from project import embedded, processes
from project.celery import app
from project.demo import gaps, sites
from ratelimit import slots
from workers.fetches.enqueue import request_fetches

SITES = 1_000
RATE, INTERVAL_S = "3/s", 1 / 3
ROUNDS = int(os.environ.get("WEIR_BENCH_ROUNDS", "2"))
WARM_UP_S = 6.0
MEASURED_S = 15.0
FETCHERS = 2
PEER = Path(__file__).with_name("scrapy_peer.py")


def measure(folder: Path) -> list[Figure]:
    """Return the rates, their ratio in this run, and how many of Weir's requests came early."""
    rounds, early = [], 0
    for number in range(ROUNDS):
        place = folder / f"round-{number}"
        place.mkdir(exist_ok=True)
        (place / "requests.log").unlink(missing_ok=True)
        with sites.running(SITES, place) as running:
            with _weir(running, place / "weir.log"):
                weir = _rate(running)
            early += _early(running)
            with _scrapy(running, place):
                scrapy = _rate(running)
        rounds.append((weir, scrapy))
    return [
        Figure(name="end_to_end_weir", value=median(weir for weir, _ in rounds), unit="fetches/s"),
        Figure(name="end_to_end_scrapy", value=median(scrapy for _, scrapy in rounds), unit="fetches/s"),
        Figure(name="end_to_end_vs_scrapy", value=median(weir / scrapy for weir, scrapy in rounds), unit="x"),
        Figure(name="end_to_end_weir_early_starts", value=early, unit="requests"),
    ]


@contextmanager
def _weir(running: sites.Sites, log: Path) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE fetches_fetchbody, fetches_fetch, ratelimit_slot, ratelimit_site CASCADE")
    with redis.Redis(unix_socket_path=str(embedded.valkey_socket(settings.EMBEDDED_HOME))) as broker:
        broker.flushall()
    for host in running.hosts:
        slots.set_rate(f"{host}:{running.port}", RATE)
    request_fetches(_urls(running))
    with processes.running(dict(os.environ), counts={"worker": 1, "fetcher": FETCHERS, "beat": 1}, log=log) as weir:
        weir.wait_until(lambda: processes.workers_answer(app, weir.workers), "the workers do not answer")
        yield


@contextmanager
def _scrapy(running: sites.Sites, folder: Path) -> Iterator[None]:
    lasts_s = WARM_UP_S + MEASURED_S + 15
    urls = folder / "urls.txt"
    urls.write_text("\n".join(_urls(running)))
    process = subprocess.Popen([sys.executable, str(PEER), str(INTERVAL_S), str(lasts_s), str(urls)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _urls(running: sites.Sites) -> list[str]:
    each = int((WARM_UP_S + MEASURED_S + 20) / INTERVAL_S)
    return [running.url(place, f"/ok/{number}") for number in range(each) for place in range(SITES)]


def _rate(running: sites.Sites) -> float:
    """Return the requests a second that the sites saw, once the first has come and the warm-up is over."""
    _, already = gaps.read_log(running.log)
    give_up_at = time.monotonic() + 60
    while not gaps.read_log(running.log, already)[0]:
        if time.monotonic() > give_up_at:
            raise TimeoutError("no request reached the sites within 60 s")
        time.sleep(0.1)
    time.sleep(WARM_UP_S)
    from_ns = time.time_ns()
    time.sleep(MEASURED_S)
    until_ns = time.time_ns()
    time.sleep(0.2)  # the log is written every 50 ms
    arrivals, _ = gaps.read_log(running.log, already)
    return sum(from_ns <= arrival.at_ns < until_ns for arrival in arrivals) / MEASURED_S


def _early(running: sites.Sites) -> int:
    arrivals, _ = gaps.read_log(running.log)
    return sum(
        judged.early_starts for judged in gaps.judge(arrivals, dict.fromkeys(running.hosts, INTERVAL_S)).values()
    )
