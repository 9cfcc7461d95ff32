"""Hostile sites: how much of their rates honest sites get beside sites whose answers cost as much as they can.

Each kind of hostile answer (hostile_site.py) comes from 1, 30 and 500 sites, at 1/s each. The honest fetches are given
in per cent of those of a turn without hostile sites, by the honest sites' own log. Two more figures are the largest
memory of a fetcher, and how many of Weir's processes have ended.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.fetches import hostile_site, own_processes
from benchmarks.fetches.measured import measured
from benchmarks.figures import Figure
from demo.fakes import sites
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

HONEST, PER_S = 20, 5
NUMBERS = (1, 30, 500)  # of hostile sites
HOSTILE_PER_S = 1  # each
MEASURED_S = float(os.environ.get("WEIR_BENCH_SECONDS", "15"))
PORT = 24_680
SERVER = Path(hostile_site.__file__)
LOOK_EVERY_S = 0.2
MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What became of honest fetches, and of Weir's processes."""

    share: float
    early: int
    peak_mib: float
    ended: int


def measure(folder: Path) -> Iterator[Figure]:
    """Return the figures of each kind and number of hostile sites."""
    alone = _turn(folder, "", 0)
    yield from _figures("alone", alone, alone.share)
    for kind in hostile_site.ANSWERS:
        for number in NUMBERS:
            yield from _figures(f"{kind}_{number}", _turn(folder, kind, number), alone.share)


def _figures(name: str, turn: Turn, alone: float) -> Iterator[Figure]:
    yield Figure(name=f"hostile_{name}_honest", value=100 * turn.share / alone, unit="% of alone")
    yield Figure(name=f"hostile_{name}_early_starts", value=turn.early, unit="requests")
    yield Figure(name=f"hostile_{name}_peak_memory", value=turn.peak_mib, unit="MiB")
    yield Figure(name=f"hostile_{name}_ended", value=turn.ended, unit="processes")


def _turn(folder: Path, kind: str, number: int) -> Turn:
    own_processes.empty()
    (folder / "requests.log").unlink(missing_ok=True)
    with sites.running(HONEST, folder) as running, _hostile_server():
        for host in running.hosts:
            site_settings.set_rate(f"{host}:{running.port}", f"{PER_S}/s")
        pages = int(PER_S * (MEASURED_S + 15))
        request_fetches([running.url(place, f"/ok/{page}") for page in range(pages) for place in range(HONEST)])
        urls = [f"http://127.9.{place // 200}.{place % 200 + 1}:{PORT}/{kind}" for place in range(number)]
        request_fetches([f"{url}/{page}" for page in range(int(HOSTILE_PER_S * (MEASURED_S + 10))) for url in urls])
        with own_processes.running(folder / "hostile.log") as weir:
            while not Fetch.objects.filter(state=FetchState.DONE).exists():
                time.sleep(0.05)
            time.sleep(2.0)  # until hostile answers have come
            pids = weir.pids()
            with _peak_mib(pids) as peak:
                seen = measured(running, MEASURED_S)
            ended = sum(not psutil.pid_exists(pid) for pid in pids)
    return Turn(
        share=seen.used_share(running.hosts, PER_S),
        early=seen.early_starts(running.hosts, PER_S),
        peak_mib=max(peak),
        ended=ended,
    )


@contextmanager
def _hostile_server() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, str(SERVER), str(PORT)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _peak_mib(pids: list[int]) -> Iterator[list[float]]:
    """Watch the memory of these processes during the block; the yielded list has the largest at the end."""
    peak, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            for pid in pids:
                try:
                    peak.append(psutil.Process(pid).memory_info().rss / MIB)
                except psutil.NoSuchProcess:
                    continue

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield peak
    finally:
        over.set()
        looking.join()
