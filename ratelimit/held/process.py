"""What this process holds for its callers at each site, and its one keeper. A forked child begins with nothing.

On a free-threaded Python callers share no runs, because other callers may go on while one caller loses the processor
between the mark of its start and its body (see held_run.py).
"""

import atexit
import os
import sys
import threading

from weir.ratelimit import site_names
from weir.ratelimit.held.keeper import Keeper
from weir.ratelimit.held.site_callers import SiteCallers

MOST_SITES = 10_000  # sites that are remembered; a site that is forgotten begins with single starts again


class _Process:
    def __init__(self) -> None:
        self.keeper = Keeper()
        self._lock = threading.Lock()
        self._sites: dict[str, SiteCallers] = {}

    def callers_at(self, host: str, *, shared: bool) -> SiteCallers:
        if not (shared and _runs_one_thread_at_a_time()):
            return SiteCallers(host, self.keeper)
        with self._lock:
            callers = self._sites.pop(host, None) or SiteCallers(host, self.keeper)
            self._sites[host] = callers  # moves to the end
            if len(self._sites) > MOST_SITES:
                del self._sites[next(iter(self._sites))]
            return callers


def _runs_one_thread_at_a_time() -> bool:
    is_locked: bool = getattr(sys, "_is_gil_enabled", lambda: True)()  # from Python 3.13 on
    return is_locked


_process = _Process()


def callers_at(site: str, *, shared: bool = True) -> SiteCallers:
    """Return the object that hands out slots to all callers of this process at this site; if not `shared`, a new one.

    Raises InvalidSiteName.
    """
    return _process.callers_at(site_names.canonical(site), shared=shared)


def forget() -> None:
    """Begin anew in a forked child, because its parent's slots are not for the child."""
    global _process  # noqa: PLW0603  one for each process
    _process = _Process()


def close() -> None:
    """Give back what the process holds, because it ends."""
    _process.keeper.close()


os.register_at_fork(after_in_child=forget)
atexit.register(close)
