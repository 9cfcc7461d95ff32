"""The name of a run of the Redis server: from one start to the next."""

from uuid import uuid4

import redis

from weir.redis_link.calls import RedisLink

MARKER = "script:"


def server_run(link: RedisLink, known: str) -> str:
    """Return the name of the server's run; `known` is the last name that was returned.

    The name is the run_id in INFO. If INFO is refused (`-@dangerous`), it is the name of a script that only this run of
    the server has: Valkey, and Redis from 7.0 on, neither persist nor replicate scripts.
    """
    try:
        told: str = link.call("INFO", "server")
    except redis.exceptions.NoPermissionError:
        if known.startswith(MARKER) and any(link.call("SCRIPT", "EXISTS", known.removeprefix(MARKER))):
            return known
        return MARKER + str(link.call("SCRIPT", "LOAD", f"return '{uuid4().hex}'"))
    return dict(line.partition(":")[::2] for line in told.splitlines())["run_id"]
