"""The sides of `end_to_end`: Weir, Scrapy, and Celery's `rate_limit`, each fetching from the same sites.

Each is a context manager: it queues a backlog, starts the side, and yields the processes whose CPU time is the side's
price, under the names of the figures: the side's own processes, and these with the servers that it cannot do without.
What stands in the queue before the side starts has cost nobody anything.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from django.conf import settings
from django.db import connection

from benchmarks import broker, celery_peer
from demo.fakes import sites
from project import embedded
from project.celery import app
from project.processes import procfile
from ratelimit import site_settings
from workers.fetches.enqueue import request_fetches

RATE, INTERVAL_S = "3/s", 1 / 3
FETCHERS = 2
SCRAPY_PEER = Path(__file__).with_name("scrapy_peer.py")
MOST_MESSAGES = 30_000  # one task a fetch: many times what Celery does in a turn

Trees = Mapping[str, list[int]]  # processes by what their CPU time is called


@contextmanager
def weir(running: sites.Sites, folder: Path, lasts_s: float) -> Iterator[Trees]:
    """Run a worker, beat and fetchers, which store every result in PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE fetches_fetchbody, fetches_fetch, ratelimit_slot, ratelimit_site CASCADE")
    broker.empty()
    for host in running.hosts:
        site_settings.set_rate(f"{host}:{running.port}", RATE)
    request_fetches(_urls(running, lasts_s))
    counts = {"worker": 1, "fetcher": FETCHERS, "beat": 1}
    with (
        embedded.servers(settings.EMBEDDED_HOME) as servers,
        procfile.running(dict(os.environ), counts=counts, log=folder / "weir.log") as running_weir,
    ):
        workers = running_weir.workers
        running_weir.wait_until(lambda: procfile.workers_answer(app, workers), "the workers do not answer")
        own = running_weir.pids()
        yield {"weir": own, "weir_and_servers": own + _pids(servers.postgres_pid, servers.valkey_pid)}


@contextmanager
def scrapy(running: sites.Sites, folder: Path, lasts_s: float) -> Iterator[Trees]:
    """Run Scrapy, which stores nothing."""
    urls = folder / "urls.txt"
    urls.write_text("\n".join(_urls(running, lasts_s)))
    with _script(SCRAPY_PEER, str(INTERVAL_S), str(lasts_s), str(urls), log=folder / "scrapy.log") as pid:
        yield {"scrapy": [pid]}


@contextmanager
def celery_rate_limit(running: sites.Sites, folder: Path, lasts_s: float) -> Iterator[Trees]:
    """Run one Celery worker, which stores nothing. RuntimeError if its queue runs empty."""
    broker.empty()
    hosts = folder / "sites.txt"
    hosts.write_text("\n".join(running.hosts))
    celery_peer.publish(settings.CELERY_BROKER_URL, _urls(running, lasts_s)[:MOST_MESSAGES])
    peer = Path(celery_peer.__file__)
    with (
        embedded.servers(settings.EMBEDDED_HOME) as servers,
        _script(peer, settings.CELERY_BROKER_URL, RATE, str(hosts), log=folder / "celery.log") as pid,
    ):
        own = [pid]
        yield {"celery_rate_limit": own, "celery_rate_limit_and_broker": own + _pids(servers.valkey_pid)}
        with broker.connect() as client:
            if not client.llen(celery_peer.QUEUE):
                raise RuntimeError("Celery ran out of tasks: its rate is that of an empty queue.")
    broker.empty()


def _urls(running: sites.Sites, lasts_s: float) -> list[str]:
    """Return as many URLs as may be asked for in that time, site by site in turn."""
    each = int(lasts_s / INTERVAL_S)
    return [running.url(place, f"/ok/{number}") for number in range(each) for place in range(len(running.hosts))]


@contextmanager
def _script(path: Path, *arguments: str, log: Path) -> Iterator[int]:
    """Run a script, and kill it with all that it started."""
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, str(path), *arguments], stdout=output, stderr=output)
    try:
        yield process.pid
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def _pids(*servers: int | None) -> list[int]:
    return [pid for pid in servers if pid is not None]
