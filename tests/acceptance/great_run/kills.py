"""What is killed, and how often: each kind of process, their children, web code, and both servers."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.acceptance.great_run.stage import NAMES, Stage, kind_of

SESSION = b"postgres: postgres weir "
FORGETS = 0.3  # of the kills of Valkey: it has nothing any more when it starts
# How often each is killed, compared with the others. A session that is killed has the whole server recover.
OF_CHILDREN = {"child of worker": 9, "child of ticks": 10, "child of maintenance": 9, "child of mailer": 11}
OF_CROWD = {"producer": 24, "holder": 12}
OF_PARENTS = {"worker": 1, "ticks": 1, "maintenance": 1, "fetcher": 5, "mailer": 1.5, "beat": 1, "web": 1}
OF_SERVERS = {"PostgreSQL session": 4, "PostgreSQL background process": 0.7, "PostgreSQL": 1, "Valkey": 1.5}
WEIGHTS = {**OF_CHILDREN, **OF_CROWD, **OF_PARENTS, **OF_SERVERS}


class Kills:
    """Kills one after the other; `counts` has how many of each kind."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(WEIGHTS, 0))
        self._stage = stage
        self._chance = chance

    def one(self, *, spare_servers: bool) -> None:
        """Kill something, chosen at random, each kind once at first; what has none at the moment is not counted."""
        weights = {kind: weight for kind, weight in WEIGHTS.items() if not (spare_servers and kind in OF_SERVERS)}
        missing = {kind: 1 for kind in weights if not self.counts[kind]}
        [kind] = self._chance.choices(tuple(missing or weights), tuple((missing or weights).values()))
        self.counts[kind] += self._way(kind)(kind)

    def pause(self, average_s: float) -> float:
        """Return how long after a kill the next one is, at random."""
        return self._chance.expovariate(1 / average_s)

    def _way(self, kind: str) -> Callable[[str], bool]:
        if kind in OF_CHILDREN:
            return self._child
        if kind in OF_CROWD:
            return self._of_crowd
        if kind in OF_PARENTS:
            return self._parent
        return {"PostgreSQL": self._postgres, "Valkey": self._valkey}.get(kind, self._postgres_process)

    def _child(self, kind: str) -> bool:
        """Kill a child of a pool, as the kernel does when memory runs out."""
        name = self._name(kind.removeprefix("child of "))
        return self._kill(children(self._stage.cluster.processes[name].pid))

    def _of_crowd(self, role: str) -> bool:
        self._stage.crowd.kill(role)
        return True

    def _parent(self, kind: str) -> bool:
        name = self._name(kind)
        self._stage.cluster.kill(name)
        self._stage.launch(name)
        return True

    def _name(self, kind: str) -> str:
        return self._chance.choice([name for name in NAMES if kind_of(name) == kind])

    def _postgres_process(self, kind: str) -> bool:
        """Kill one of PostgreSQL's processes; the first of them then ends all others, and recovers."""
        server = self._stage.server.process
        assert server
        wants_session = kind == "PostgreSQL session"
        return self._kill([pid for pid in children(server.pid) if _is_session(pid) is wants_session])

    def _postgres(self, _kind: str) -> bool:
        self._stage.server.kill()
        self._stage.server.start()
        return True

    def _valkey(self, _kind: str) -> bool:
        self._stage.valkey.kill()
        if self._chance.random() < FORGETS:
            self._stage.valkey.forget()
        self._stage.valkey.start()
        return True

    def _kill(self, pids: list[int]) -> bool:
        with suppress(ProcessLookupError):
            if pids:
                os.kill(self._chance.choice(pids), signal.SIGKILL)
                return True
        return False


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_session(pid: int) -> bool | None:
    """Tell whether a process of PostgreSQL serves a client; None where it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(SESSION)
    return None
