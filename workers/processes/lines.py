"""The command lines of Weir's workers and beat, for the installed apps. Only `app_option` is not pure.

Each queue has a worker of its own, because the kinds of work differ. The tasks of `weir.ticks`, which keep Weir going,
take milliseconds. Tasks of `weir.maintenance` may take long. A mail server that hangs delays mailers only. A fetcher is
one event loop, so it needs a pool of threads.

One process with threads (`small`) can do all work: no task keeps the interpreter for long, and the tasks that may take
long have one thread for each kind (`weir.workers.pools.serial`). The price is that an error that ends this process ends
all work.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.workers.processes.kinds import BEAT, of_queue

_FETCH: Final = "weir.fetch"
_MAIL: Final = "weir.mail"
_OPTIONS: Final = "--prefetch-multiplier 2 --without-gossip --without-mingle --without-heartbeat"
_THREADS: Final = "--pool threads --concurrency 64"
_POOLS: Final[Mapping[str, str]] = {
    "weir.ticks": "--pool prefork --concurrency 3",
    "weir.maintenance": "--pool prefork --concurrency 2",
    _FETCH: _THREADS,
    _MAIL: "--pool prefork --concurrency 2",
}
# Seconds to finish a task. A mailer has more time, for a mail server that hangs: if a mailer does not wait for the
# server's reply, the e-mail becomes `unknown`.
STOPS_WITHIN_S: Final = 90
MAILER_STOPS_WITHIN_S: Final = 660


@dataclass(frozen=True, kw_only=True)
class ProcessLine:
    """A process: its name, which no process of a project's own has, its command, and how long it may take to stop."""

    name: str
    command: str
    stops_within_s: int = STOPS_WITHIN_S

    @property
    def words(self) -> list[str]:
        """The command, word by word."""
        return self.command.split()


def lines(app: str, queues: Collection[str], *, small: bool = False) -> Iterator[ProcessLine]:
    """Yield a process for each of these queues of Weir's, and beat. If `small`, yield one process for everything.

    `app` is the value of Celery's option -A.
    """
    if small:
        yield _worker(app, "weir", queues, _THREADS, beat="--beat ")  # as in Weir's own Procfile
        return
    for queue in queues:
        yield _worker(app, f"weir-{of_queue(queue)}", [queue], _POOLS[queue])
    yield ProcessLine(name=f"weir-{BEAT}", command=f"celery -A {app} beat")


def _worker(app: str, name: str, queues: Collection[str], pool: str, *, beat: str = "") -> ProcessLine:
    return ProcessLine(
        name=name,
        command=f"celery -A {app} worker {beat}--queues {','.join(queues)} {pool} {_OPTIONS} --hostname {name}@%h",
        stops_within_s=MAILER_STOPS_WITHIN_S if _MAIL in queues else STOPS_WITHIN_S,
    )


def app_option(app: Any) -> str | None:  # noqa: ANN401  Celery's own have no types
    """Return the value of -A for this Celery app: a module, or `module:name`. None if no module has the app."""
    found = [
        (name, variable)
        for name, module in sorted(sys.modules.items())
        for variable, value in list(vars(module).items() if module else ())
        if value is app
    ]
    for name, variable in sorted(found, key=lambda place: (not place[0].endswith(".celery"), len(place[0]))):
        if name.startswith(("celery.", "weir.")) or name in {"celery", "__main__"}:
            continue
        if variable in {"app", "celery"}:
            return name.removesuffix(".celery")
        return f"{name}:{variable}"
    return None
