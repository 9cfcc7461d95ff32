"""The command lines of Weir's workers and its beat, for the apps that are installed: pure, except for modules' names.

The kinds of work have needs of their own. What keeps Weir going is in `weir.ticks`, and takes milliseconds. Tasks of
`weir.maintenance` may take long. A mail server that hangs holds up mailers only. A fetcher is one event loop, so it
wants threads. One process of threads can do it all, because none of it keeps the interpreter for long, and work that
may take long has one thread a kind (`weir.workers.pools.serial`): the price is that what ends it ends all of it.
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
# Time to finish a task; and for a mail server that hangs: an e-mail whose answer is not awaited is `unknown`.
STOPS_WITHIN_S: Final = 90
MAILER_STOPS_WITHIN_S: Final = 660


@dataclass(frozen=True, kw_only=True)
class ProcessLine:
    """A process: its name, which none of a project's own has, its command, and how long it may take to stop."""

    name: str
    command: str
    stops_within_s: int = STOPS_WITHIN_S

    @property
    def words(self) -> list[str]:
        """The command, word by word."""
        return self.command.split()


def lines(app: str, queues: Collection[str], *, small: bool = False) -> Iterator[ProcessLine]:
    """Yield the processes of these queues of Weir's, and beat; with `small`, one that is all of them.

    `app` is what Celery's option -A names.
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
    """Return what -A names for this Celery app: its module, or that and its name there. None if no module has it."""
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
