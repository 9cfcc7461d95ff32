"""A circuit breaker (M. Nygard, "Release It!"), with time as an argument."""

from dataclasses import dataclass, field
from threading import Lock


@dataclass(kw_only=True)
class CircuitBreaker:
    """While the breaker is closed, every caller may try. After `most_failures` in a row, it is open for `first_s`.

    While it is open, no caller may try. Then it is half-open, and one caller may try. If that caller fails, the breaker
    is open for twice as long as before, `longest_s` at most; if the caller succeeds, it is closed. Times are seconds of
    a monotonic clock. The threads of one process may share a breaker.
    """

    most_failures: int
    first_s: float
    longest_s: float
    _failures: int = 0
    _open_until: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def open_for_s(self, now: float) -> float:
        """Return for how many seconds no caller may try; 0 if a caller may."""
        return max(0.0, self._open_until - now)

    def enter(self, now: float) -> bool:
        """Return whether the caller may try. A caller that may try must then call `failed` or `succeeded`."""
        with self._lock:
            if self.open_for_s(now):
                return False
            if self._failures >= self.most_failures:
                self._open(now)  # for all other callers, until this caller reports
            return True

    def failed(self, now: float, at_least_s: float = 0.0) -> None:
        """Count a failure. Open after too many in a row, and in any case for `at_least_s`, if the other side asked."""
        with self._lock:
            self._failures += 1
            if self._failures >= self.most_failures:
                self._open(now)
            self._open_until = max(self._open_until, now + at_least_s)

    def succeeded(self) -> bool:
        """Close the breaker; return whether there had been failures."""
        with self._lock:
            had_failed = self._failures > 0
            self._failures, self._open_until = 0, 0.0
            return had_failed

    def _open(self, now: float) -> None:
        doublings = min(30, max(0, self._failures - self.most_failures))
        self._open_until = now + min(self.longest_s, self.first_s * 2**doublings)
