"""Unread numbers without Redis: each number is counted from the rows, as it is after Redis has lost its memory."""

from contextlib import AbstractContextManager
from typing import Any, Final

from weir.redis_link import calls
from weir.redis_link.calls import RedisLink, RedisUnreachable, Script

# The scripts that are answered with 0: a delta counts as taken, and no other process knows a higher generation.
_TAKEN: Final = frozenset({"add", "bump", "mark"})
_UNKNOWN: Final = frozenset({"peek"})


class _Forgetful(RedisLink):
    """Takes the place of a connection to Redis: accepts all data, and returns none."""

    def call(self, *_command: str | int) -> Any:  # noqa: ANN401  what Redis answers
        return None

    def run(self, script: Script, *_arguments: object) -> Any:  # noqa: ANN401  as above
        """Answer in place of the script. Raises RedisUnreachable for a flush's scripts: there is nothing to flush."""
        if script.name in _TAKEN:
            return 0
        if script.name in _UNKNOWN:
            return None
        raise RedisUnreachable(f"There is no Redis in this test, which {script.name} asks.")

    def deadline_us(self) -> int:
        return 0

    def note_time(self, microseconds: int) -> None:
        pass


def without_redis() -> AbstractContextManager[None]:
    """Keep this process from asking Redis while the block lasts."""
    return calls.answered_by(_Forgetful(None))
