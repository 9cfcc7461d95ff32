"""What tabs take from fetchers: requests a second at paced sites, without a tab and with many."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.fetches import cpu, own_processes
from benchmarks.figures import Figure
from benchmarks.tabs import web
from benchmarks.tabs.polling import polling
from benchmarks.tabs.size import Size
from benchmarks.tabs.web import Web
from demo.fakes import judge, site_log, sites
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches

PER_S = 2
TO_START_S = 60.0
OTHERS = {"ticks": 1, "fetcher": 2, "maintenance": 1, "beat": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """Requests of one turn, and what the web process used."""

    share: float  # of what the rates allow
    web: float  # per cent of a core


def measure(folder: Path, cookies: Sequence[str], size: Size) -> Iterator[Figure]:
    """Yield the shares of the rates that were used, with and without tabs, and the ratio of the two."""
    own_processes.empty()
    lasts_s = TO_START_S + 2 * size.rounds * (size.paced_s + size.warm_up_s)
    with sites.running(size.sites, folder) as fakes:
        for host in fakes.hosts:
            site_settings.set_rate(f"{host}:{fakes.port}", f"{PER_S}/s")
        each = int(PER_S * lasts_s)
        request_fetches([fakes.url(place, f"/ok/{n}") for n in range(each) for place in range(size.sites)])
        with web.running(folder / "paced.log", OTHERS) as running:
            _wait_for_first(fakes)
            rounds = [_round(running, fakes, cookies, size) for _ in range(size.rounds)]
        own_processes.empty()
    for side, name in enumerate(("without_tabs", "with_tabs")):
        value = median(turns[side].share for turns in rounds)
        yield Figure(name=f"tabs_paced_{name}", value=100 * value, unit="% of the rates")
        value = median(turns[side].web for turns in rounds)
        yield Figure(name=f"tabs_paced_{name}_web_cpu", value=value, unit="% of a core")
    value = median(many.share / none.share for none, many in rounds)
    yield Figure(name="tabs_paced_with_vs_without", value=value, unit="x")


def _round(running: Web, fakes: sites.Sites, cookies: Sequence[str], size: Size) -> tuple[Turn, Turn]:
    none = _turn(running, fakes, size)
    with polling(running.port, cookies):
        return none, _turn(running, fakes, size)


def _turn(running: Web, fakes: sites.Sites, size: Size) -> Turn:
    time.sleep(size.warm_up_s)
    from_ns, before_s = time.time_ns(), cpu.used_s(running.pids)
    time.sleep(size.paced_s)
    until_ns, after_s = time.time_ns(), cpu.used_s(running.pids)
    time.sleep(site_log.READ_WITHIN_S)
    arrivals, _ = site_log.read_arrivals(fakes.log)
    seen = sum(from_ns <= arrival.at_ns < until_ns for arrival in arrivals)
    lasted_s = (until_ns - from_ns) / judge.NANOSECONDS
    return Turn(share=seen / (size.sites * PER_S * lasted_s), web=100 * (after_s - before_s) / lasted_s)


def _wait_for_first(fakes: sites.Sites) -> None:
    give_up_at = time.monotonic() + TO_START_S
    while not fakes.log.exists() or not site_log.read_arrivals(fakes.log)[0]:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"no request reached the sites within {TO_START_S:g} s")
        time.sleep(0.1)
