"""Tabs: what fifty open tabs of the Overview cost, and what they take from fetchers beside them.

The tabs ask as live.js does: every two seconds, for what changes, with the ETag of what they have. They are threads of
this process, whose CPU time is not counted. The web process is the Procfile's.

- `calm`: only the web process runs. One tab, fifty tabs of one session and fifty tabs of as many users take turns. CPU
  time is that of the web process and of all of PostgreSQL, as a share of a core.
- `paced`: fetchers ask fifty sites beside it, twice a second each, without a tab and with fifty tabs in turn. The
  requests in the sites' own log are counted.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.tabs import calm, paced, sessions
from benchmarks.tabs.size import LONG, Size


def measure(folder: Path, size: Size = LONG) -> Iterator[Figure]:
    """Yield the figures of both, each as soon as it is known."""
    own = folder / "tabs"
    own.mkdir(parents=True, exist_ok=True)
    with sessions.signed_in(size.tabs) as cookies:
        yield from calm.measure(own, cookies, size)
        yield from paced.measure(own, cookies, size)
