"""The window: how long after its last look at the clock a fetcher's request is written, with the machine idle and busy.

A start that was decided in time is written late if the kernel takes the processor away in between, or another thread
takes the interpreter. The time is measured from the look at the clock to the look after the system call, so it is never
too short. The fetcher runs in this process, with all its threads, and stores what it fetches; the busy turn has BUSY
other processes that never wait. With TLS, the request is encrypted before the look at the clock.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from benchmarks.fetches import own_processes
from benchmarks.figures import Figure
from demo.fakes import judge, sites
from project.celery import app
from weir.ratelimit import clock, site_settings
from weir.ratelimit.pacing import HAND_OVER_MARGIN_S
from weir.workers import task_names
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.http import attempt as attempt_module
from weir.workers.fetches.fetcher.http.attempt import Attempt
from weir.workers.fetches.fetcher.wire.channel import Channel

SITES, PER_S = 60, 10
BUSY = 8
MEASURED_S = float(os.environ.get("WEIR_BENCH_SECONDS", "20"))
QUANTILES = (50, 99, 99.9)


def measure(folder: Path) -> Iterator[Figure]:
    """Return the quantiles of the window, and how many starts took longer than the margin that is left for it."""
    for name, busy in (("idle", 0), ("busy", BUSY)):
        with ExitStack() as running:
            for _ in range(busy):
                running.enter_context(_busy_process())
            found = _windows(folder)
        yield Figure(name=f"window_{name}_starts", value=len(found["window"]), unit="requests")
        for part, times_s in found.items():
            for quantile in QUANTILES:
                microseconds = judge.percentile(times_s, quantile) * 1e6
                yield Figure(name=f"{part}_{name}_p{quantile:g}", value=microseconds, unit="us")
            yield Figure(name=f"{part}_{name}_longest", value=max(times_s) * 1e6, unit="us")
            over = sum(one_s > HAND_OVER_MARGIN_S for one_s in times_s)
            yield Figure(name=f"{part}_{name}_beyond_margin", value=over, unit="requests")


def _windows(folder: Path) -> dict[str, list[float]]:
    """Fetch for MEASURED_S; returns the window of each start, in seconds, and its part before the system call."""
    own_processes.empty()
    (folder / "requests.log").unlink(missing_ok=True)
    found: dict[str, list[float]] = {"window": [], "before_call": []}
    with sites.running(SITES, folder) as running, _noted(found):
        for host in running.hosts:
            site_settings.set_rate(f"{host}:{running.port}", f"{PER_S}/s")
        request_fetches([running.url(place, "/ok") for _ in range(int(PER_S * MEASURED_S)) for place in range(SITES)])
        _fetch()
    return found


def _fetch() -> None:
    """Dispatch once a second, as beat does, and let one fetcher run the messages."""
    messages: list[list[int]] = []

    def send_task(name: str, args: tuple[list[int], ...] = (), **_options: object) -> None:
        if name == task_names.FETCH_BATCH:
            messages.extend(args)

    fetcher = Fetcher()
    with mock.patch.object(app, "send_task", send_task), ThreadPoolExecutor(64) as threads:
        until = time.monotonic() + MEASURED_S
        while time.monotonic() < until:
            dispatch()
            while messages:
                threads.submit(fetcher.run_batch, messages.pop())
            time.sleep(1.0)
        fetcher.stop_starting()
    fetcher.close(5.0)


@contextmanager
def _noted(found: dict[str, list[float]]) -> Iterator[None]:
    """Record, for each start, the time between the last two looks at the clock, and its part before the system call."""
    looks = threading.local()
    note_start, send = Attempt._note_start, Channel.send  # noqa: SLF001  the measured time lies between two lines

    def now() -> float:
        looks.before, looks.last = getattr(looks, "last", 0.0), (at := clock.now())
        return at

    def sending(channel: Channel, data: bytes) -> None:
        looks.called = clock.now()
        send(channel, data)

    def noting(attempt: Attempt, at: float) -> None:
        found["window"].append(looks.last - looks.before)
        found["before_call"].append(looks.called - looks.before)
        note_start(attempt, at)

    with (
        mock.patch.object(attempt_module, "clock", SimpleNamespace(now=now)),
        mock.patch.object(Attempt, "_note_start", noting),
        mock.patch.object(Channel, "send", sending),
    ):
        yield


@contextmanager
def _busy_process() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
