"""Redis as the witness of PostgreSQL's history: it stores the highest generation that a process has seen."""

from contextlib import suppress
from typing import Final

from django.db import connection

from weir.redis_link import calls
from weir.redis_link.calls import Script
from weir.redis_link.keys import keys

MARK = Script("mark")

UNKNOWN: Final = 0


def exchange(generation: int) -> int:
    """Tell Redis the generation, and return the highest that any process has told Redis.

    Returns UNKNOWN if Redis is away, or does not answer in time.
    """
    was_open = connection.connection is not None
    try:
        with suppress(calls.RedisUnreachable):  # other warnings report that
            return remember(generation)
        return UNKNOWN
    finally:
        if not was_open:  # `keys` has opened it, in a thread that ends
            connection.close()


def remember(generation: int) -> int:
    """Store the generation in Redis if it is the highest; return the highest that Redis knows, 0 if it knows none.

    Raises calls.RedisUnreachable if Redis refuses, or does not answer in time.
    """
    return int(calls.run(MARK, [keys().mark], [generation]))
