"""Changes a large installation without the ORM: it is filled, copied into and updated, each by one statement."""

import time
from dataclasses import dataclass
from typing import Any

from django.db import connection
from psycopg.errors import QueryCanceled

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.unread import stores

ROWS_A_USER = 10
UNREAD_A_USER = 2
KINDS = 50
UPDATE_S = 300  # of the one UPDATE: after this time it is cancelled, and changes nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How large the installation is, and how much one COPY adds to it."""

    users: int
    copied: int  # rows, for a tenth of the users
    copy_s: float  # rows that are not copied within this time are left out


# A factor that has no divisor in common with the number of users: with it, neighbours in time are not neighbours in the
# order of users.
SCATTER = 7_919
# A user's notifications are of several kinds.
FILL = f"""
    INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, created_at, changed_at, read_at)
    SELECT
        1 + n * {SCATTER} % {{users}}, 'kind.' || (n + n / {{users}}) % {KINDS}, 'Order ' || n || ' is on its way', '',
        '/orders/' || n, at, at, CASE WHEN n < {{users}} * {ROWS_A_USER - UNREAD_A_USER} THEN at END
    FROM generate_series(0, {{users}}::bigint * {ROWS_A_USER} - 1) AS n,
        LATERAL (
            SELECT statement_timestamp() - interval '400 days' + interval '30 days' * (n / ({{users}}::float8))
        ) AS moment(at)
"""
FILL_COUNTS = f"""
    INSERT INTO weir_notifications_unreadcount (user_id, unread_count, epoch)
    SELECT user_id, {UNREAD_A_USER}, 0 FROM generate_series(1, {{users}}) AS user_id
"""
COPIED = """
    COPY (
        SELECT 1 + n % ({users} / 10), 'import', 'Imported ' || n, '', '/imported/' || n
        FROM generate_series(1, {rows}::bigint) AS n
        WHERE clock_timestamp() < statement_timestamp() + make_interval(secs => {most_s})
    ) TO STDOUT
"""
COPY = "COPY weir_notifications_notification (user_id, kind, title, body, url) FROM STDIN"
UPDATE_KIND = "UPDATE weir_notifications_notification SET read_at = now() WHERE kind = 'kind.3' AND read_at IS NULL"
LOST = "INSERT INTO weir_notifications_notification (user_id, kind, title, body, url) VALUES (%s, 'lost', '', '', '')"
WRONG = """
    SELECT count(*)
    FROM weir_notifications_unreadcount AS stored
    FULL JOIN (
        SELECT user_id, count(*) AS unread FROM weir_notifications_notification WHERE read_at IS NULL GROUP BY user_id
    ) AS counted USING (user_id)
    WHERE coalesce(stored.unread_count, 0) <> coalesce(counted.unread, 0)
"""
SIZES = """
    SELECT
        pg_table_size('weir_notifications_notification') / 1e9,
        pg_indexes_size('weir_notifications_notification') / 1e9
"""


def fill(users: int) -> None:
    """Write ten notifications a user, and the stored numbers; reconcile until Redis is trusted."""
    stores.empty()
    with database.hastily(), database.without_indexes("weir_notifications_notification"):
        database.run_at_length(FILL.format(users=users))
    database.run_at_length(FILL_COUNTS.format(users=users))
    database.run_at_length("VACUUM ANALYZE weir_notifications_notification, weir_notifications_unreadcount")
    stores.become_trusted(passes=max(stores.PASSES, users // 10_000))


def copy(size: Size) -> int:
    """Copy rows for a tenth of the users by one statement; returns how many, which are fewer if the time was over."""
    with database.connect() as source, database.connect() as target:
        for side in (source, target):
            side.execute("SET statement_timeout = 0")
        copied = COPIED.format(users=size.users, rows=size.copied, most_s=size.copy_s)
        reading, writing = source.cursor(), target.cursor()
        with reading.copy(copied) as out, writing.copy(COPY) as into:
            for row in out:
                into.write(row)
        return writing.rowcount


def update_kind() -> list[Figure]:
    """Mark all notifications of one kind as read by one statement; return how many, and how long it took."""
    began_at = time.perf_counter()
    with database.connect() as bare:
        bare.execute(f"SET statement_timeout = '{UPDATE_S} s'")
        try:
            updated = bare.execute(UPDATE_KIND).rowcount
        except QueryCanceled:
            return [Figure(name="update_cancelled_after", value=UPDATE_S, unit="s")]
    return [
        Figure(name="update_took", value=time.perf_counter() - began_at, unit="s"),
        Figure(name="updated", value=updated, unit="rows"),
    ]


def lose_delta(user_id: int) -> None:
    """Notify a user without a delta, like a process that dies between COMMIT and add."""
    with connection.cursor() as cursor:
        cursor.execute(LOST, [user_id])


def wrong_numbers() -> Figure:
    """Return how many users' stored numbers are not the count of their unread rows."""
    return Figure(name="wrong_numbers", value=_row(WRONG)[0], unit="users")


def sizes(part: str) -> list[Figure]:
    """Return the sizes of the table of notifications and of its indexes."""
    table, indexes = _row(SIZES)
    return [
        Figure(name=f"{part}_table", value=float(table), unit="GB"),
        Figure(name=f"{part}_indexes", value=float(indexes), unit="GB"),
    ]


def _row(query: str) -> tuple[Any, ...]:
    with database.connect() as bare:
        bare.execute("SET statement_timeout = 0")
        return bare.execute(query).fetchone() or ()
