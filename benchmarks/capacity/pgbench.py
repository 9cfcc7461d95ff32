"""The queries that fetchers send even without work: sent by pgbench over a few connections, at the real rates.

A fetcher asks 20 times a second which slots were recalled, and writes its heartbeat every two seconds, with a look at
PostgreSQL's history. The statements are Weir's own files.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import psutil

from benchmarks import database
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.workers.fetches.fetcher.recall_watcher import PERIOD, WINDOW
from weir.workers.processes.presence import GAP_S, HEARTBEAT_EVERY_S

CONNECTIONS: Final = 8
_KNOWN: Final = {"known_generation": "0", "clock": "'[2000-01-01,2100-01-01)'"}
_STATE: Final = {"holds": "100", "round_trip": "0", "stops": "false"}
_HEARTBEAT: Final = {"process": ":process", "ago": "0", "gap": str(GAP_S), **_STATE}
# The statements of a fetcher: package, file, parameters, and how many a second.
ASKED: Final[tuple[tuple[str, str, Mapping[str, str], float], ...]] = (
    ("weir.ratelimit", "recalls", {**_KNOWN, "window": str(WINDOW)}, 1 / PERIOD),
    ("weir.workers.processes", "heartbeat", _HEARTBEAT, 1 / HEARTBEAT_EVERY_S),
    ("weir.postgres.timeline", "look", {"known": "0", "every": "1"}, 1 / HEARTBEAT_EVERY_S),
)
A_FETCHER_S: Final = sum(asked[-1] for asked in ASKED)
_SAID: Final = {
    "done": r"actually processed: (\d+)",
    "skipped": r"transactions skipped: (\d+)",
    "late": r"latency limit: (\d+)/",
    "latency_ms": r"latency average = ([\d.]+)",
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What became of the queries."""

    in_time: float  # the share that was answered before a fetcher would have stopped starting
    latency_ms: float  # the mean, from the time at which a query was to be sent


class Asking:
    """A running pgbench."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ended(self) -> Asked:
        """Wait for its end; RuntimeError if it failed."""
        out, errors = self._process.communicate()
        said = {name: float(match[1]) for name, pattern in _SAID.items() if (match := re.search(pattern, out))}
        if self._process.returncode or len(said) < len(_SAID):
            raise RuntimeError(f"pgbench failed, or said not all: {out}\n{errors}")
        asked = said["done"] + said["skipped"]
        return Asked(in_time=(said["done"] - said["late"]) / asked, latency_ms=said["latency_ms"])


@contextmanager
def running(folder: Path, postgresql: int, fetchers: int, lasts_s: float) -> Iterator[Asking]:
    """Send the queries of this many fetchers; their rows have the ids 1 to `fetchers`."""
    scripts = [
        f"--file={script(folder, *asked[:3], fetchers)}@{round(asked[-1] * HEARTBEAT_EVERY_S)}" for asked in ASKED
    ]
    to = database.parameters()
    command = [
        str(Path(psutil.Process(postgresql).exe()).with_name("pgbench")),
        *("--no-vacuum", "--protocol=prepared", f"--client={CONNECTIONS}", f"--time={lasts_s:.0f}"),
        *(f"--rate={fetchers * A_FETCHER_S:g}", f"--latency-limit={CONFIRMED_FOR_S * 1e3:g}", *scripts),
        *(f"--host={to['host']}", f"--username={to['user']}", str(to["dbname"])),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Asking(process)
        finally:
            process.kill()


def script(folder: Path, package: str, name: str, parameters: Mapping[str, str], fetchers: int) -> Path:
    """Write the statement as pgbench takes it, for a fetcher at random."""
    statement = files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    file = folder / f"{name.replace('/', '-')}.pgbench"
    file.write_text(f"\\set process random(1, {fetchers})\n{statement.strip() % parameters};\n")
    return file
