"""End to end: fetches a second at 3/s a site, against Scrapy and against Celery's `rate_limit`, on the same sites.

Weir stores every result in PostgreSQL before it acknowledges the fetch; the other two discard the results. The sides
take turns, each on all cores of the machine, which they share with the fake sites. Rates, early starts and gaps come
from the sites' own log; the rate is that of the middle of each turn. CPU time is that of all processes of a side in the
same time, for each 1,000 fetches; fetches a core are the fetches for each second of processor time. Weir's CPU time is
also given with PostgreSQL's and Valkey's, and Celery's with Valkey's, because the side needs these servers. Lateness is
by how much the gap between two requests to a site was longer than the interval: there was always work.

- 1,500 sites are more than any side can serve at 3/s on two cores: which side fetches most? A side that asks a site
  less often than it may breaks no interval, even if it paces nothing.
- 1,000 sites with TLS, on connections that are kept. Their authority is made for the run. Weir and Celery's side verify
  their certificates; Scrapy does not, by default.
- 100 sites are few enough: which side uses the allowed 300/s, and which keeps the interval?

A table says what the limit of each side was: the sites' rates, the processor of its busiest process, or the machine's
processors, which the side's processes, its servers and the sites share.
"""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import certificates
from benchmarks.fetches import cpu, sides
from benchmarks.fetches.sides import INTERVAL_S, Trees
from benchmarks.figures import Figure, print_table
from demo.fakes import judge, site_log, sites

# A side may open a dozen connections to each site before the first is free for the next request, and the process of all
# sites may have no more than 20,000 files on many machines.
MANY, MANY_WITH_TLS, FEW = 1_500, 1_000, 100
ROUNDS = int(os.environ.get("WEIR_BENCH_ROUNDS", "2"))
WARM_UP_S = 15.0  # while connections are opened
MEASURED_S = 12.0
TO_START_S = 20.0  # within this time a side has made its first request
FULL = 0.95  # a resource is the limit if at least this part of it is used

Side = Callable[[sites.Sites, Path, float], AbstractContextManager[Trees]]
SIDES: dict[str, Side] = {
    "weir": sides.weir,
    "scrapy": sides.scrapy,
    "celery_rate_limit": sides.celery_rate_limit,
}
VERIFYING = {"weir", "celery_rate_limit"}  # certificates


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the sites' log says of one side in one turn, and the CPU time that it used."""

    rate: float  # requests a second
    early: int
    shortest_gap_ns: int | None  # None if no site was asked twice
    cpu_s_per_1000: dict[str, float]  # of the side's processes, and of these with its servers
    of_rates: float  # the part of the sites' rates that was used
    beyond_ms: list[float]  # by how much each gap was longer than the interval
    busiest: float  # processors that the busiest process of the side or its servers used
    of_machine: float  # the part of the machine's processors that the side, its servers and the sites used

    @property
    def limit(self) -> str:
        """What kept the side from fetching more."""
        limits = {"the sites' rates": self.of_rates, "one process": self.busiest, "all processors": self.of_machine}
        return next((name for name, used in limits.items() if used >= FULL), "none of these")


def measure(folder: Path) -> list[Figure]:
    """Return every side's rate, early starts and CPU time with many sites and with few, and the rates' ratios."""
    folders = [folder / f"round-{number}" for number in range(ROUNDS)]
    many = [_round(MANY, of_round) for of_round in folders]
    with_tls = [_round(MANY_WITH_TLS, of_round, with_tls=True) for of_round in folders]
    few = [_round(FEW, folder / "few")]
    _print("HTTP", MANY, many)
    _print("HTTPS", MANY_WITH_TLS, with_tls)
    return [
        *_figures("end_to_end", many),
        *_ratios("end_to_end", many),
        *_figures("end_to_end_tls", with_tls),
        *_ratios("end_to_end_tls", with_tls),
        *_figures(f"end_to_end_{FEW}_sites", few),
    ]


def _print(scheme: str, hosts: int, rounds: list[dict[str, Turn]]) -> None:
    """Print the rounds' medians, and the limit of each side in the last round."""
    print_table(
        f"{hosts} sites of {scheme} at {sides.RATE}, {ROUNDS} rounds",
        ("side", "verifies", "fetches/s", "of the rates", "CPU-s/1,000", "with servers", "busiest", "machine", "limit"),
        [_row(side, scheme, [turns[side] for turns in rounds]) for side in SIDES],
    )


def _row(side: str, scheme: str, turns: list[Turn]) -> list[str]:
    *_, with_servers = trees = list(turns[0].cpu_s_per_1000)
    cpu_s = [median(turn.cpu_s_per_1000[tree] for turn in turns) for tree in (trees[0], with_servers)]
    return [
        side,
        "-" if scheme == "HTTP" else "yes" if side in VERIFYING else "no",
        f"{median(turn.rate for turn in turns):,.0f}",
        f"{median(turn.of_rates for turn in turns):.0%}",
        *(f"{seconds:.3f}" for seconds in cpu_s),
        f"{median(turn.busiest for turn in turns):.2f}",
        f"{median(turn.of_machine for turn in turns):.0%}",
        turns[-1].limit,
    ]


def _ratios(prefix: str, rounds: list[dict[str, Turn]]) -> list[Figure]:
    return [
        Figure(
            name=f"{prefix}_vs_{peer}",
            value=median(turns["weir"].rate / turns[peer].rate for turns in rounds),
            unit="x",
        )
        for peer in SIDES
        if peer != "weir"
    ]


def _figures(prefix: str, rounds: list[dict[str, Turn]]) -> list[Figure]:
    return [figure for side in SIDES for figure in _figures_of(prefix, side, [turns[side] for turns in rounds])]


def _figures_of(prefix: str, side: str, turns: list[Turn]) -> list[Figure]:
    name = f"{prefix}_{side}"
    shortest_ns = min((turn.shortest_gap_ns for turn in turns if turn.shortest_gap_ns is not None), default=None)
    gap = [] if shortest_ns is None else [Figure(name=f"{name}_shortest_gap_ms", value=shortest_ns / 1e6, unit="ms")]
    beyond_ms = [gap_ms for turn in turns for gap_ms in turn.beyond_ms]
    return [
        Figure(name=name, value=median(turn.rate for turn in turns), unit="fetches/s"),
        *(
            Figure(
                name=f"{prefix}_{tree}_cpu_s_per_1000",
                value=median(turn.cpu_s_per_1000[tree] for turn in turns),
                unit="s",
            )
            for tree in turns[0].cpu_s_per_1000
        ),
        *(
            Figure(
                name=f"{prefix}_{tree}_a_core",
                value=median(1_000 / turn.cpu_s_per_1000[tree] for turn in turns),
                unit="fetches/s a core",
            )
            for tree in turns[0].cpu_s_per_1000
        ),
        Figure(name=f"{name}_of_rates", value=100 * median(turn.of_rates for turn in turns), unit="%"),
        Figure(name=f"{name}_early_starts", value=sum(turn.early for turn in turns), unit="requests"),
        *gap,
        *(
            Figure(name=f"{name}_beyond_interval_p{q}_ms", value=judge.percentile(beyond_ms, q), unit="ms")
            for q in (50, 99)
            if beyond_ms
        ),
    ]


def _round(hosts: int, folder: Path, *, with_tls: bool = False) -> dict[str, Turn]:
    folder.mkdir(exist_ok=True)
    (folder / "requests.log").unlink(missing_ok=True)
    with (
        certificates.of_sites(hosts, folder) if with_tls else nullcontext() as made,
        sites.running(hosts, folder, certificates=made) as running,
    ):
        return {name: _turn(side, running, folder) for name, side in SIDES.items()}


def _turn(side: Side, running: sites.Sites, folder: Path) -> Turn:
    """Let a side fetch, and measure it from the end of the warm-up, which begins with the first request."""
    _, already = site_log.read_arrivals(running.log)
    with side(running, folder, TO_START_S + WARM_UP_S + MEASURED_S) as trees:
        _wait_for_first(running, already)
        time.sleep(WARM_UP_S)
        *_, with_servers = trees.values()
        used_before_s, from_ns = _used_s(trees), time.time_ns()
        before_s, sites_before_s = cpu.used_s_by_process(with_servers), cpu.used_s([running.pid])
        time.sleep(MEASURED_S)
        used_after_s, until_ns = _used_s(trees), time.time_ns()
        after_s, sites_after_s = cpu.used_s_by_process(with_servers), cpu.used_s([running.pid])
    time.sleep(site_log.READ_WITHIN_S)
    arrivals, _ = site_log.read_arrivals(running.log, already)
    counted = [arrival for arrival in arrivals if from_ns <= arrival.at_ns < until_ns]
    lasted_s = (until_ns - from_ns) / judge.NANOSECONDS
    seen = len(counted)
    judged = judge.verdicts(arrivals, dict.fromkeys(running.hosts, INTERVAL_S)).values()
    return Turn(
        rate=seen / lasted_s,
        early=sum(host.early_starts for host in judged),
        shortest_gap_ns=min(judge.gaps_ns(arrivals), default=None),
        cpu_s_per_1000={name: (used_after_s[name] - used_before_s[name]) / seen * 1_000 for name in trees},
        of_rates=seen / lasted_s * INTERVAL_S / len(running.hosts),
        beyond_ms=[gap_ns / 1e6 - INTERVAL_S * 1e3 for gap_ns in judge.gaps_ns(counted)],
        busiest=max(after_s[pid] - before_s.get(pid, 0.0) for pid in after_s) / lasted_s,
        of_machine=(sum(after_s.values()) - sum(before_s.values()) + sites_after_s - sites_before_s)
        / lasted_s
        / (os.cpu_count() or 1),
    )


def _wait_for_first(running: sites.Sites, already: int) -> None:
    give_up_at = time.monotonic() + 60
    while not site_log.read_arrivals(running.log, already)[0]:
        if time.monotonic() > give_up_at:
            raise TimeoutError("no request reached the sites within 60 s")
        time.sleep(0.1)


def _used_s(trees: Trees) -> dict[str, float]:
    return {name: cpu.used_s(pids) for name, pids in trees.items()}
