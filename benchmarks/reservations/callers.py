"""Processes that ask a limiter for starts. Run as a script, this module is one of them, a *caller*.

A turn of a caller is two lines of its standard input. The first names the limiter and the scenario; the caller answers
when the limiter is connected. The second is the time to begin; the caller answers with its notes at the end of the
turn. Every caller has a backlog for every site: it asks again as soon as it has started.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from heapq import heapreplace
from typing import TYPE_CHECKING

from weir.ratelimit import clock

if TYPE_CHECKING:
    from benchmarks.reservations.limiters import Limiter
    from benchmarks.reservations.scenarios import Scenario
    from weir.ratelimit.slots import Reservation

READY = "ready\n"
BEGIN_IN_S = 0.1
NOW = 0.0  # a time in the past, so that the next step follows immediately


@dataclass(kw_only=True)
class Notes:
    """The notes of one caller in one turn; times are ns of ratelimit's clock, which all processes share."""

    starts: list[tuple[str, int]] = field(default_factory=list)  # the site, and when the caller could start
    granted: int = 0
    refusals: int = 0
    granted_calls_ns: list[int] = field(default_factory=list)  # how long each granted call took


class Crew:
    """Callers that are ready for a turn."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def take_turn(self, callers: int, limiter: str, scenario: str) -> list[Notes]:
        """Let `callers` callers ask at the same time; return their notes. RuntimeError if one of them ends instead."""
        asking = self._processes[:callers]
        for process in asking:
            print(json.dumps([limiter, scenario]), file=process.stdin, flush=True)
        for process in asking:
            if _answer(process) != READY:
                raise RuntimeError("A process that was to ask for starts is not ready.")
        begin_at = clock.now() + BEGIN_IN_S
        for process in asking:
            print(begin_at, file=process.stdin, flush=True)
        return [Notes(**json.loads(_answer(process))) for process in asking]


def _answer(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError("A process that was to ask for starts ended.")
    return line


@contextmanager
def running(count: int) -> Iterator[Crew]:
    """Run `count` callers; kill them on leaving."""
    command = [sys.executable, "-m", "benchmarks.reservations.callers"]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    try:
        yield Crew(processes)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def keep_starting(limiter: "Limiter", sites: list[str], until: float) -> Notes:
    """Start at all sites as often as the limiter grants it, each start at its time."""
    notes = Notes()
    due = [(NOW, place, _starts(limiter, site, notes)) for place, site in enumerate(sites)]
    while due[0][0] < until and clock.now() < until:
        at, place, starts = due[0]
        while (wait_s := at - clock.now()) > 0:
            time.sleep(wait_s)
        heapreplace(due, (next(starts), place, starts))
    return notes


def _starts(limiter: "Limiter", site: str, notes: Notes) -> Iterator[float]:
    """Start at one site again and again; yield the time at which to continue."""
    while True:
        asked_ns = round(clock.now() * 1e9)
        grant = limiter.ask(site)
        answered_ns = round(clock.now() * 1e9)
        if grant is None:
            notes.refusals += 1
            yield limiter.ask_again_at(site)
            continue
        notes.granted += 1
        notes.granted_calls_ns.append(answered_ns - asked_ns)
        if grant.reservation:
            yield from _use(grant.reservation, site, notes)
        else:
            notes.starts.append((site, grant.started_ns or answered_ns))
        yield NOW


def _use(reservation: "Reservation", site: str, notes: Notes) -> Iterator[float]:
    """Start in each of the slots. If it is too late for a slot, the rest of the run is lost: a refusal."""
    from weir.ratelimit import slots  # noqa: PLC0415  after Django is set up

    run = reservation.run
    for slot in reservation.slots:
        if (ready_at := run.ready_at(slot.start_at)) > clock.now():
            yield ready_at
        if not run.confirmation.is_good_at(clock.now()):  # as `throttle` does after a long wait
            slots.confirm(reservation)
        started_ns = round(clock.now() * 1e9)
        if not run.may_start(started_ns / 1e9):
            notes.refusals += 1
            return
        notes.starts.append((site, started_ns))
        run.started(clock.now())


def keep_asking(limiter: "Limiter", site: str, until: float) -> Notes:
    """Ask for starts without a pause, and use none."""
    notes = Notes()
    while (asked_ns := round(clock.now() * 1e9)) / 1e9 < until:
        if limiter.ask(site) is None:
            notes.refusals += 1
        else:
            notes.granted += 1
            notes.granted_calls_ns.append(round(clock.now() * 1e9) - asked_ns)
    return notes


def _take_turn(limiter: "Limiter", scenario: "Scenario", begin_at: float) -> Notes:
    until = begin_at + scenario.turn_s
    time.sleep(max(0.0, begin_at - clock.now()))
    if scenario.interval_s:
        return keep_starting(limiter, scenario.names, until)
    return keep_asking(limiter, scenario.names[0], until)


def main() -> None:
    """Take the turns that the standard input names."""
    import django  # noqa: PLC0415  what follows needs Django's settings

    django.setup()
    from benchmarks.reservations.limiters import LIMITERS  # noqa: PLC0415
    from benchmarks.reservations.scenarios import SCENARIOS  # noqa: PLC0415
    from demo.fakes.children import die_with_parent  # noqa: PLC0415

    die_with_parent()
    for line in sys.stdin:
        limiter_name, prefix = json.loads(line)
        scenario = SCENARIOS[prefix]
        with closing(LIMITERS[limiter_name](scenario)) as limiter:
            print(READY, end="", flush=True)
            notes = _take_turn(limiter, scenario, float(sys.stdin.readline()))
        print(json.dumps(asdict(notes)), flush=True)


if __name__ == "__main__":
    main()
