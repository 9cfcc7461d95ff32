"""Weir's processes on all hosts, as PostgreSQL records them: whether each kind runs, and each process goes on."""

from collections.abc import Sequence

from project.doctor.findings import Check, Verdict, good, not_checked, warning, wrong
from project.doctor.themes.postgresql import SERVER, TABLES
from weir.ratelimit.round_trips import FAR_S
from weir.workers.processes.status import ProcessStatus, by_kind, longest_round_trip_s, processes

WORKERS = "a worker"  # what these checks provide
# For each kind of process: what waits if no process of this kind runs.
KINDS = {
    "beat": "nothing is dispatched, swept or sent",
    "fetcher": "fetches wait",
    "mailer": "e-mails wait",
    "maintenance": "nothing is reconciled or purged",
    "ticks": "nothing is dispatched, swept or flushed",
    "worker": "your own tasks wait",
}
START = "start the process of the Procfile that is one, or all with `make up`"


def kinds(known: Sequence[ProcessStatus]) -> Sequence[Verdict]:
    """Judge whether a process of each kind runs."""
    running = by_kind(process for process in known if process.state == "alive")
    if not running:
        return [wrong("No process of Weir runs: `make up`, or the lines of the Procfile, start them.")]
    missing = [wrong(f"No {kind} runs, so {waits}: {START}.") for kind, waits in KINDS.items() if not running[kind]]
    return missing or [good(", ".join(f"{number} {kind}" for kind, number in sorted(running.items())) + " run.")]


def silent(known: Sequence[ProcessStatus]) -> Sequence[Verdict]:
    """Judge whether each process goes on."""
    if not known:
        return [not_checked("No process is known.")]
    found = [
        wrong(
            f"{process.name} (pid {process.pid}) is silent for {process.silent_s:.0f} s: it is frozen, dead or cut off "
            "from PostgreSQL, so restart it."
        )
        for process in known
        if process.state == "silent"
    ]
    return found or [good("Each goes on.")]


def versions(known: Sequence[ProcessStatus]) -> Verdict:
    """Judge whether all processes run the same version."""
    running = sorted({process.version or "unknown" for process in known if process.state == "alive"})
    if not running:
        return not_checked("No process runs.")
    if len(running) > 1:
        return warning(
            f"Processes run the versions {', '.join(running)} side by side: restart those of the older ones."
        )
    return good(f"All run Weir {running[0]}.")


def distance(longest_s: float) -> Verdict:
    """Judge whether processes are near enough to PostgreSQL to use the full rates of sites."""
    if not longest_s:
        return good("No process has measured a round trip lately.")
    text = f"Their longest round trip to PostgreSQL, with its commit, takes {longest_s * 1000:.1f} ms"
    if longest_s < FAR_S:
        return good(f"{text}.")
    return warning(f"{text}, so that fast sites cannot use all of their rate: run the fetchers nearer to the primary.")


class _Asking:
    """The processes, which several checks use; PostgreSQL is asked once."""

    def __init__(self) -> None:
        self.known: list[ProcessStatus] = []

    def kinds(self) -> Sequence[Verdict]:
        self.known = processes()
        return kinds(self.known)


def _has_worker(known: Sequence[ProcessStatus]) -> Verdict:
    if any(process.state == "alive" and process.kind != "beat" for process in known):
        return good("Workers run.")
    return not_checked("No worker runs.")


def checks() -> list[Check]:
    """Return the checks of this theme."""
    asking, needs = _Asking(), (SERVER, TABLES)
    return [
        Check(name="kinds", ask=asking.kinds, needs=needs),
        Check(name="turns", ask=lambda: silent(asking.known), needs=needs),
        Check(name="workers", ask=lambda: _has_worker(asking.known), needs=needs, provides=WORKERS),
        Check(name="versions", ask=lambda: versions(asking.known), needs=needs),
        Check(name="distance", ask=lambda: distance(longest_round_trip_s()), needs=(*needs, WORKERS)),
    ]
