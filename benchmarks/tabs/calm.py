"""What tabs cost while nothing else runs: CPU time of the web process and of PostgreSQL."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from django.conf import settings

from benchmarks.fetches import cpu, own_processes
from benchmarks.figures import Figure
from benchmarks.tabs import web
from benchmarks.tabs.polling import Tabs, polling
from benchmarks.tabs.size import Size
from benchmarks.tabs.web import Web
from project import embedded


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one turn used, in per cent of a core, and what its tabs got."""

    web: float
    postgres: float
    own: float  # this process, with its tabs
    tabs: Tabs

    @property
    def all(self) -> float:
        return self.web + self.postgres


def measure(folder: Path, cookies: Sequence[str], size: Size) -> Iterator[Figure]:
    """Yield what one tab, fifty of one session and fifty of fifty users use, and how much more the many use."""
    own_processes.empty()
    sides = {"one": cookies[:1], "same_user": [cookies[0]] * size.tabs, "many_users": cookies}
    with embedded.servers(settings.EMBEDDED_HOME) as servers, web.running(folder / "calm.log", {}) as running:
        postgres = [pid for pid in (servers.postgres_pid,) if pid is not None]
        _turn(running, postgres, list(cookies), size.warm_up_s)
        rounds = [
            {side: _turn(running, postgres, shown, size.calm_s) for side, shown in sides.items()}
            for _ in range(size.rounds)
        ]
    for side in sides:
        yield from _figures(side, [turns[side] for turns in rounds])
    for side in list(sides)[1:]:
        more = median(turns[side].all - turns["one"].all for turns in rounds)
        yield Figure(name=f"tabs_calm_{side}_more_than_one", value=more, unit="% of a core")


def _turn(running: Web, postgres: list[int], cookies: Sequence[str], seconds: float) -> Turn:
    with polling(running.port, cookies) as tabs:
        before = (cpu.used_s(running.pids), cpu.used_s(postgres), time.process_time())
        began = time.perf_counter()
        time.sleep(seconds)
        lasted_s = time.perf_counter() - began
        after = (cpu.used_s(running.pids), cpu.used_s(postgres), time.process_time())
    web_, postgres_, own = (100 * (late - early) / lasted_s for early, late in zip(before, after, strict=True))
    return Turn(web=web_, postgres=postgres_, own=own, tabs=tabs)


def _figures(side: str, turns: list[Turn]) -> Iterator[Figure]:
    name = f"tabs_calm_{side}"
    for part in ("web", "postgres", "own"):
        value = median(getattr(turn, part) for turn in turns)
        yield Figure(name=f"{name}_{part}_cpu", value=value, unit="% of a core")
    yield Figure(name=f"{name}_answer", value=median(turn.tabs.median_ms for turn in turns), unit="ms")
    for status in sorted({status for turn in turns for status in turn.tabs.statuses}):
        answers = sum(turn.tabs.statuses[status] for turn in turns)
        yield Figure(name=f"{name}_answers_{status}", value=answers, unit="answers")
