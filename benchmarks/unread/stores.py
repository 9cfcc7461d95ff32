"""What the benchmarks of notifications run on: the tables and Valkey, empty or full, and a plain client of Valkey."""

import redis
from django.conf import settings
from django.db import connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from benchmarks import database
from weir.notifications import reconcile
from weir.redis_link import places

ROWS = 5_000_000
USERS = 100_000
# Users by their number of unread rows, which are spread over the whole table.
PROBED = {10: 1, 10_000: 2}
UNREAD_OF_OTHERS = 5  # one in this many
PASSES = 20  # after which Redis must have become trusted

EMPTY = """
    TRUNCATE weir_notifications_notification, weir_notifications_unreadcount, weir_notifications_flushedepoch,
        weir_notifications_doubt, weir_notifications_reconciliation, weir_notifications_readmark,
        weir_notifications_excess, weir_notifications_forgottenuser
        RESTART IDENTITY
"""
# The times are long ago, so that reconciliation finds no recent change.
FILL = f"""
    INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, created_at, changed_at, read_at)
    SELECT
        owner.user_id, 'order.shipped', 'Order ' || n || ' is on its way', 'It left the warehouse today.',
        '/orders/' || n, owner.at, owner.at,
        CASE WHEN NOT owner.is_probed AND n % {UNREAD_OF_OTHERS} > 0 THEN owner.at END
    FROM generate_series(1, {ROWS}) AS n
    CROSS JOIN LATERAL (
        SELECT
            CASE WHEN n % {ROWS // 10} = 1 THEN 1 WHEN n % {ROWS // 10_000} = 2 THEN 2
                ELSE 3 + n::bigint * 7919 % {USERS} END,
            n % {ROWS // 10} = 1 OR n % {ROWS // 10_000} = 2,
            statement_timestamp() - interval '30 days' + n * interval '0.1 s'
    ) AS owner(user_id, is_probed, at);
    INSERT INTO weir_notifications_unreadcount (user_id, unread_count, epoch)
    SELECT user_id, count(*) FILTER (WHERE read_at IS NULL), 0 FROM weir_notifications_notification GROUP BY user_id
"""


def empty() -> None:
    """Delete all notifications and all keys of Valkey."""
    with connection.cursor() as cursor:
        cursor.execute(EMPTY)
    with bare_redis() as client:
        client.flushall()


def fill() -> None:
    """Write the notifications and their flushed counts, and reconcile until Redis is trusted."""
    empty()
    with database.without_indexes("weir_notifications_notification"):
        database.run_at_length(FILL)
    database.run_at_length("VACUUM ANALYZE weir_notifications_notification, weir_notifications_unreadcount")
    become_trusted()


def become_trusted(passes: int = PASSES) -> None:
    """Reconcile until Redis is trusted, which takes a whole full scan."""
    for _ in range(passes):
        report = reconcile.run_pass()
        if report and report.trusted:
            return
    raise TimeoutError(f"Redis was not trusted after {passes} passes")


def bare_redis() -> redis.Redis:
    """Return a client with the settings of the counters' client."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_connect_timeout=places.CONNECT_TIMEOUT_S,
        socket_timeout=places.ANSWER_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )
