"""The sides of `end_to_end`: Weir, Scrapy, and Celery's `rate_limit`, each fetching from the same sites.

Each is a context manager: it queues a backlog, starts the side, and yields the processes whose CPU time is the side's
price, under the names of the figures: the side's own processes, and these with the servers that the side needs. To
queue the backlog before the side starts costs the side no CPU time.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from django.conf import settings

from benchmarks import broker
from benchmarks.fetches import celery_peer, own_processes
from demo.fakes import sites
from project import embedded
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches

RATE, INTERVAL_S = "3/s", 1 / 3
SCRAPY_PEER = Path(__file__).with_name("scrapy_peer.py")
MOST_MESSAGES = 40_000  # one task a fetch: many times what Celery does in a turn

Trees = Mapping[str, list[int]]  # process ids, by the name of their CPU time's figure


@contextmanager
def weir(running: sites.Sites, folder: Path, lasts_s: float) -> Iterator[Trees]:
    """Run a worker, beat and fetchers, which store every result in PostgreSQL."""
    own_processes.empty()
    for host in running.hosts:
        site_settings.set_rate(f"{host}:{running.port}", RATE)
    request_fetches(_urls(running, lasts_s))
    with (
        embedded.servers(settings.EMBEDDED_HOME) as servers,
        own_processes.running(folder / "weir.log") as processes,
    ):
        own = processes.pids()
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
    """Run one Celery worker, which stores nothing. RuntimeError if its queue is empty at the end."""
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
    """Return as many URLs as the rates allow in that time, one site after the other in turn."""
    each = int(lasts_s / INTERVAL_S)
    return [running.url(place, f"/ok/{number}") for number in range(each) for place in range(len(running.hosts))]


@contextmanager
def _script(path: Path, *arguments: str, log: Path) -> Iterator[int]:
    """Run a script; kill it and its child processes on leaving."""
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
