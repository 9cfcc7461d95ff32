"""Rows a second of one `notify_many`, its deltas included, compared with COPY and Django's own `bulk_create`.

All three write into the same table of five million rows with the same indexes; the peers count nothing.
"""

from django.db.models import QuerySet

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.rounds import middle, rate, ratio, take_turns
from weir.notifications import inbox
from weir.notifications.models import Notification

ROUNDS = 5
USERS = 100_000
CREATED = 20_000
KIND, TITLE, BODY, URL = "news", "A new version is out", "It is faster than the last one.", "/news/1"
COPY = "COPY weir_notifications_notification (user_id, kind, title, body, url) FROM STDIN"


def compare() -> list[Figure]:
    """Return the three rates and two ratios."""
    with database.connect() as bare:

        def notify_many() -> None:
            inbox.notify_many(range(USERS), KIND, TITLE, body=BODY, url=URL)

        def copy() -> None:
            with bare.cursor() as cursor, cursor.copy(COPY) as into:
                for user_id in range(USERS):
                    into.write_row((user_id, KIND, TITLE, BODY, URL))

        def bulk_create() -> None:
            QuerySet[Notification](model=Notification).bulk_create(
                Notification(user_id=user_id, kind=KIND, title=TITLE, body=BODY, url=URL) for user_id in range(CREATED)
            )

        rounds = take_turns(
            ROUNDS,
            lambda: rate(USERS, notify_many),
            lambda: rate(USERS, copy),
            lambda: rate(CREATED, bulk_create),
        )
    return [
        Figure(name="notify_many", value=middle(rounds, 0), unit="rows/s"),
        Figure(name="copy", value=middle(rounds, 1), unit="rows/s"),
        Figure(name="bulk_create", value=middle(rounds, 2), unit="rows/s"),
        Figure(name="notify_many_vs_copy", value=ratio(rounds, 0, 1), unit="x"),
        Figure(name="notify_many_vs_bulk_create", value=ratio(rounds, 0, 2), unit="x"),
    ]
