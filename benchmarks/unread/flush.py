"""Rows a second that a flush writes from Valkey to PostgreSQL, for users that have a row already.

Weir's side is all of a flush: seal, read, apply, drop. Three peers:

- a loop of one UPDATE a user as Django writes it, in one transaction, with deltas that it need not read;
- the same loop at its best: without Django, prepared;
- the published flush, as it is published: it takes each delta from Valkey, and commits each UPDATE.
"""

from random import Random

from django.db import transaction
from django.db.models import F

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.rounds import middle, rate, ratio, take_turns
from benchmarks.unread import stores
from benchmarks.unread.published import PublishedUnread, create_table
from weir.notifications import counters, flush
from weir.notifications.models import UnreadCount

ROUNDS = 5
USERS = 100_000
LOOPED = 10_000
PUBLISHED = 1_000
LOOP = "UPDATE weir_notifications_unreadcount SET unread_count = unread_count + %s WHERE user_id = %s"


def compare() -> list[Figure]:
    """Return the rates, the ratios, and Weir's rate for users without a row."""
    inserts = take_turns(ROUNDS, _flush_new)
    users = list(range(USERS))
    Random(0).shuffle(users)  # noqa: S311  nothing secret
    create_table()
    with database.connect() as bare, stores.bare_redis() as client:
        published = PublishedUnread(client)

        def loop() -> None:
            with bare.transaction(), bare.cursor() as cursor:
                for user_id in users[:LOOPED]:
                    cursor.execute(LOOP, [1, user_id])

        def loop_in_django() -> None:
            with transaction.atomic():
                for user_id in users[:LOOPED]:
                    UnreadCount.objects.filter(user_id=user_id).update(unread_count=F("unread_count") + 1)

        def flush_again() -> float:
            _add()
            return rate(USERS, flush.flush_sealed)

        def flush_published() -> float:
            for user_id in users[:PUBLISHED]:
                published.add(user_id, 1)
            return rate(PUBLISHED, published.flush)

        database.run_at_length("VACUUM ANALYZE weir_notifications_unreadcount")
        take_turns(1, flush_again, lambda: rate(LOOPED, loop), flush_published)  # not measured: the creation of rows
        rounds = take_turns(
            ROUNDS, flush_again, lambda: rate(LOOPED, loop), flush_published, lambda: rate(LOOPED, loop_in_django)
        )
    database.run_at_length("DROP TABLE published_unread")
    return [
        Figure(name="flush", value=middle(rounds, 0), unit="rows/s"),
        Figure(name="flush_of_new_users", value=middle(inserts, 0), unit="rows/s"),
        Figure(name="looped_update", value=middle(rounds, 3), unit="rows/s"),
        Figure(name="looped_update_at_its_best", value=middle(rounds, 1), unit="rows/s"),
        Figure(name="published_flush", value=middle(rounds, 2), unit="rows/s"),
        Figure(name="flush_vs_looped_update", value=ratio(rounds, 0, 3), unit="x"),
        Figure(name="flush_vs_looped_update_at_its_best", value=ratio(rounds, 0, 1), unit="x"),
        Figure(name="flush_vs_published_flush", value=ratio(rounds, 0, 2), unit="x"),
    ]


def _flush_new() -> float:
    stores.empty()
    _add()
    return rate(USERS, flush.flush_sealed)


def _add() -> None:
    for first in range(0, USERS, counters.AT_ONCE):
        counters.add(dict.fromkeys(range(first, min(USERS, first + counters.AT_ONCE)), 1))
