"""The bell: what 1,000 users cost who ask for their number every five seconds, at two real web processes.

The polls come from this process, each at its time, however long the one before took; its CPU time is not counted.
Flushes go on meanwhile, because twenty other users are notified each second.

- `unchanged`: no user's number changes. Each poll has the ETag that the last answer gave.
- `changing`: ten of the users are notified each second, too, and their polls find that.
- `without_etag`: two hundred of them poll as a client without ETags does: the number is read each time.

Transactions and calls are those that PostgreSQL and Redis count themselves, less those of an equally long time without
polls. CPU time is that of the web processes, PostgreSQL and Redis together. The benchmark takes about a minute.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks.bell import sides
from benchmarks.bell.size import LONG, Size
from benchmarks.figures import Figure
from benchmarks.tabs import sessions, web
from benchmarks.tabs.web import Web
from benchmarks.unread import stores

WEB_PROCESSES = 2


def measure(folder: Path, size: Size = LONG) -> Iterator[Figure]:
    """Yield the figures of each side as soon as they are known."""
    own = folder / "bell"
    own.mkdir(parents=True, exist_ok=True)
    stores.empty()
    stores.become_trusted()
    with sessions.signed_in(size.users) as cookies, _running(own) as running:
        yield from sides.measure(running, cookies, size)
    stores.empty()


@contextmanager
def _running(folder: Path) -> Iterator[Web]:
    """Run two web processes, on one port, and the processes that flush."""
    with (
        patch.dict(os.environ, {"WEB_CONCURRENCY": str(WEB_PROCESSES)}),
        web.running(folder / "processes.log", {"ticks": 1, "beat": 1}) as running,
    ):
        yield running
