"""The design for unread numbers that is published most often for Django, as a contrast to `notifications`.

1. `add`: where a row is saved, ZINCRBY on one sorted set: member = user, score = delta.
2. `flush`, a periodic task: for each member, take its delta (ZSCORE and ZREM in one MULTI), then add it to the row.
3. `number`: what the row says, and ZSCORE.

Nothing here is a strawman: MULTI keeps a delta that comes between ZSCORE and ZREM, and the row is changed by an UPDATE
that adds. Where it loses all the same:

- A process that dies between ZREM and UPDATE, or whose UPDATE fails, has lost the delta, and nothing tells.
- In the other published order, UPDATE before ZREM, the same death has the next flush count it twice.
- `add` is called inside the transaction: what is rolled back has been counted; `number` shows it before the COMMIT.
- `number` reads low while a flush holds a delta between the two, or stores it right after `number` read the row.
- A Redis that loses its memory takes all deltas along, and nothing notices.

`_take` and `_store` are the steps between which a test may kill. None of this is for use.
"""

from typing import Any

import redis
from django.conf import settings
from django.db import connection

DELTAS = "published:deltas"


def create_table() -> None:
    """Make sure that the table of numbers exists, and is empty."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS published_unread (user_id bigint PRIMARY KEY, unread_count bigint NOT NULL)"
        )
        cursor.execute("TRUNCATE published_unread")


class PublishedUnread:
    """The numbers of all users, with the deltas in the Redis of this client; without one, in that of the settings."""

    def __init__(self, client: redis.Redis | None = None) -> None:
        self._redis = client or redis.Redis.from_url(settings.REDIS_URL)

    def add(self, user_id: int, delta: int) -> None:
        """Add to a user's number, at once, whatever becomes of the transaction."""
        self._redis.zincrby(DELTAS, delta, str(user_id))

    def flush(self) -> int:
        """Bring all deltas to PostgreSQL, one user after the other; return of how many users."""
        members: Any = self._redis.zrange(DELTAS, 0, -1, withscores=True)
        for member, _ in members:
            user_id = int(member)
            if delta := self._take(user_id):
                self._store(user_id, delta)
        return len(members)

    def number(self, user_id: int) -> int:
        """Return a user's number."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT unread_count FROM published_unread WHERE user_id = %s", [user_id])
            row = cursor.fetchone()
        return (row[0] if row else 0) + int(self._redis.zscore(DELTAS, str(user_id)) or 0)

    def _take(self, user_id: int) -> int:
        """Remove a user's delta from Redis and return it; from here on this process alone has it."""
        with self._redis.pipeline() as pipeline:
            pipeline.zscore(DELTAS, str(user_id))
            pipeline.zrem(DELTAS, str(user_id))
            score, _ = pipeline.execute()
        return int(score or 0)

    def _store(self, user_id: int, delta: int) -> None:
        """Add a delta to the user's row, or make one."""
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE published_unread SET unread_count = unread_count + %s WHERE user_id = %s", [delta, user_id]
            )
            if not cursor.rowcount:
                cursor.execute(
                    "INSERT INTO published_unread AS stored VALUES (%s, %s) ON CONFLICT (user_id) DO UPDATE"
                    " SET unread_count = stored.unread_count + excluded.unread_count",
                    [user_id, delta],
                )
