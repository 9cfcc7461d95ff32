"""A process whose wall clock is wrong, as Python sees it; its monotonic clock is right, as on any host.

`python -m tests.wrong_clock SECONDS MODULE ARGUMENT ...` runs a module that way, as `python -m MODULE` would. If a
file is named instead of the seconds, it has them: writing it steps the clock.
"""

import datetime as dt
import runpy
import sys
import time
from pathlib import Path
from typing import Any, Self

_RIGHT = dt.datetime


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        """Accept what extensions in C make: they know only the right class."""
        return isinstance(instance, _RIGHT) if cls is _Wrong else super().__instancecheck__(instance)


class _Wrong(_RIGHT, metaclass=_Kind):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Self:
        return cls.now(dt.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Self:
        return cls.now()


def be_wrong_by(seconds: int | Path) -> None:
    """Set this process' wall clock fast by this many seconds. To be called before anything else is imported."""

    def ahead() -> int:
        return int(seconds.read_text()) if isinstance(seconds, Path) else seconds

    right_s, right_ns, clock_s, clock_ns = time.time, time.time_ns, time.clock_gettime, time.clock_gettime_ns
    right_gmtime, right_localtime = time.gmtime, time.localtime

    def fast(clock: int) -> int:
        return ahead() if clock == time.CLOCK_REALTIME else 0

    module: Any = time
    module.time = lambda: right_s() + ahead()
    module.time_ns = lambda: right_ns() + ahead() * 10**9
    module.clock_gettime = lambda clock: clock_s(clock) + fast(clock)
    module.clock_gettime_ns = lambda clock: clock_ns(clock) + fast(clock) * 10**9
    module.gmtime = lambda at=None: right_gmtime(time.time() if at is None else at)
    module.localtime = lambda at=None: right_localtime(time.time() if at is None else at)
    module = dt
    module.datetime = _Wrong


if __name__ == "__main__":
    be_wrong_by(Path(sys.argv[1]) if "/" in sys.argv[1] else int(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
