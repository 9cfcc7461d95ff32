"""The design for unread numbers that is published most often for Django, for comparison with `notifications`.

1. `add`: when a row is saved, ZINCRBY on one sorted set: member = user, score = delta.
2. `flush`, a periodic task: for each member, take its delta (ZSCORE and ZREM in one MULTI), then add it to the row.
3. `number`: what the row says, and ZSCORE.

The design is implemented at its best: MULTI keeps a delta that is added between ZSCORE and ZREM, and an UPDATE adds the
delta to the row. Its weaknesses:

- A process that dies between ZREM and UPDATE, or whose UPDATE fails, has lost the delta, and nothing shows that.
- In the other published order, UPDATE before ZREM, the same death makes the next flush count it twice.
- `add` is called inside the transaction: a row that is rolled back has been counted, and `number` counts rows before
  their COMMIT.
- `number` reads low while a flush holds a delta between the two, or stores it right after `number` read the row.
- A Redis that loses its memory loses all deltas, and nothing shows that.

Tests kill a process between the steps `_take` and `_store`. Do not use this code.
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
    """The numbers of all users, with the deltas in this client's Redis; without a client, in that of the settings."""

    def __init__(self, client: redis.Redis | None = None) -> None:
        self._redis = client or redis.Redis.from_url(settings.REDIS_URL)

    def add(self, user_id: int, delta: int) -> None:
        """Add to a user's number, immediately, whatever becomes of the transaction."""
        self._redis.zincrby(DELTAS, delta, str(user_id))

    def flush(self) -> int:
        """Write all deltas to PostgreSQL, one user after the other; return the number of users."""
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
        """Remove a user's delta from Redis and return it; from then on only this process has it."""
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
