"""Limiters compared: is the interval kept, how often is a caller refused, and how many starts are granted a second?

They take turns, with one caller and with several. `limiters` says what each promises, `scores` how it is judged.
"""

import os
from itertools import product

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure
from benchmarks.reservations import callers, limiters, scores
from benchmarks.reservations.scenarios import FAST, SLOW, SPEEDS, UNREFUSED, Scenario
from benchmarks.reservations.scores import Score

ROUNDS = int(os.environ.get("WEIR_BENCH_ROUNDS", "2"))
PROCESSES = (1, 8)
ENTRANTS = {
    FAST: tuple(limiters.LIMITERS),  # with `throttle`, at the shortest grace
    SLOW: ("weir", "pyrate_limiter", "throttled_py", "limits"),
    UNREFUSED: ("weir", "pyrate_limiter", "throttled_py", "limits"),
    **dict.fromkeys(SPEEDS, ("throttle", "throttled_py")),
}
WIDTH = 120  # of the printed tables

Scores = dict[tuple[str, int], Score]  # by limiter and number of processes


def compare() -> list[Figure]:
    """Return the figures of all scenarios, and print a table of each."""
    figures = []
    with callers.running(max(PROCESSES)) as crew:
        for scenario, names in ENTRANTS.items():
            table = _contest(crew, scenario, names)
            Console(width=WIDTH).print(_drawn(scenario, table))
            for (name, processes), score in table.items():
                figures += _figures(f"{scenario.prefix}_{name}_{_processes(processes)}", scenario, score)
    return figures


def _contest(crew: callers.Crew, scenario: Scenario, names: tuple[str, ...]) -> Scores:
    """Let each limiter take its turns with each number of callers; every round begins with another limiter."""
    entries = list(product(names, PROCESSES))
    turns: dict[tuple[str, int], list[Score]] = {entry: [] for entry in entries}
    for number in range(ROUNDS):
        for name, processes in (*entries[number:], *entries[:number]):
            limiters.set_up(scenario)
            turns[name, processes].append(scores.judge(crew.take_turn(processes, name, scenario.prefix), scenario))
    limiters.tear_down(scenario)
    return {entry: scores.total(of_entry) for entry, of_entry in turns.items()}


def _processes(count: int) -> str:
    return "1_process" if count == 1 else f"{count}_processes"


def _drawn(scenario: Scenario, table: Scores) -> Table:
    drawn = Table(title=scenario.title)
    drawn.add_column("limiter", no_wrap=True)
    paced = ("starts", "violations", "shortest gap (intervals)") if scenario.interval_s else ()
    for heading in (
        "processes",
        *paced,
        "refusals a grant",
        "reservations/s",
        "share of the rate",
        "p99 of a grant, ms",
    ):
        drawn.add_column(heading, justify="right")
    for (name, processes), score in table.items():
        gap = "-" if score.shortest_gap is None else f"{score.shortest_gap:.3f}"
        exactness = (str(score.starts), str(score.violations), gap) if scenario.interval_s else ()
        share = f"{score.per_s * scenario.interval_s / scenario.sites:.1%}" if scenario.interval_s else "-"
        cost = (f"{score.refusals_per_grant:.2f}", f"{score.per_s:.4g}", share, f"{score.p99_ms:.2f}")
        drawn.add_row(name, str(processes), *exactness, *cost)
    return drawn


def _figures(prefix: str, scenario: Scenario, score: Score) -> list[Figure]:
    return [
        *(_of_pace(prefix, scenario.interval_s / scenario.sites, score) if scenario.interval_s else []),
        Figure(name=f"{prefix}_refusals", value=score.refusals_per_grant, unit="a grant"),
        Figure(name=f"{prefix}_rate", value=score.per_s, unit="reservations/s"),
        Figure(name=f"{prefix}_p99_ms", value=score.p99_ms, unit="ms"),
    ]


def _of_pace(prefix: str, interval_s: float, score: Score) -> list[Figure]:
    """Return the figures of callers that ask for one start an interval, at all sites together."""
    gap = [] if score.shortest_gap is None else [score.shortest_gap]
    return [
        Figure(name=f"{prefix}_violations", value=score.violations, unit=f"of {score.starts} starts"),
        *(Figure(name=f"{prefix}_shortest_gap", value=value, unit="intervals") for value in gap),
        Figure(name=f"{prefix}_share", value=100 * score.per_s * interval_s, unit="%"),
    ]
