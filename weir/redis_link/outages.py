"""Logs that a server is out of reach, once a minute rather than at each call."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from weir.logs.loggers import get_logger
from weir.redis_link import calls

EVERY_S = 60.0

log = get_logger(__name__)
_quiet_until: dict[str, float] = {}  # for each event, until when it is not logged, by time.monotonic()


def warn(event: str, error: Exception) -> None:
    """Log a warning, unless this process logged the same event less than a minute ago."""
    now = time.monotonic()
    if now >= _quiet_until.get(event, 0.0):
        _quiet_until[event] = now + EVERY_S
        log.warning(event, error=str(error))


@contextmanager
def waited_out(event: str) -> Iterator[None]:
    """If Redis is out of reach, log this once a minute, and leave the block's periodic work to a later tick."""
    try:
        yield
    except calls.RedisUnreachable as error:
        warn(event, error)
