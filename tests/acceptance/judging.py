"""What became of all jobs, by the lists of others (sites, mail server, rows): nothing early, lost, sent twice or wrong.

Promises are judged by identity, never by totals: where one is lost and another is there that nobody counted, as its
COMMIT went through and the reply was lost in a fault, the totals are right.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urlsplit

from django.db import connection

from demo.fakes import judge
from demo.fakes.mail_server import ACCEPTED, Event, MailServer
from demo.fakes.site_log import Arrival
from tests.acceptance.all_jobs import USERS, Committed
from weir.notifications import inbox
from weir.notifications.models import Notification
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders.models import SHIPPED

STORED_WRONG = """
    SELECT count(*) FROM (
        SELECT user_id, count(*) FILTER (WHERE read_at IS NULL) AS unread
        FROM weir_notifications_notification GROUP BY user_id
    ) AS rows FULL JOIN weir_notifications_unreadcount AS stored USING (user_id)
    WHERE coalesce(stored.unread_count, 0) <> coalesce(rows.unread, 0)
"""
SUBMITTED = (EmailState.SENT, EmailState.UNKNOWN)  # the mail server has it, or may have it


def early(arrivals: Iterable[Arrival], intervals: Mapping[str, float]) -> int:
    """Return how many requests reached a site sooner after the last than its interval, by the site's own log."""
    return sum(judged.early_starts for judged in judge.verdicts(arrivals, intervals).values())


def accepted(mails: MailServer) -> list[Event]:
    """Return what the mail server has accepted."""
    return [event for event in mails.events() if event.event == ACCEPTED]


def twice(events: Iterable[Event]) -> set[str]:
    """Return the recipients of e-mails that were accepted more than once: by the Message-ID, or by the recipient."""
    seen, found = set[str](), set[str]()
    for event in events:
        if {event.message_id, event.recipient} & seen:
            found.add(event.recipient)
        seen |= {event.message_id, event.recipient}
    return found


def lost(committed: Committed, arrivals: Iterable[Arrival], events: Collection[Event]) -> Counter[str]:
    """Return how much of what was committed has not been done, once all has ended; what there is none of is left out.

    Every fetch must be `done` and the sites have seen it; every e-mail must be `sent` or `unknown`; and the mail server
    has accepted those that are sent, and no others but unknown ones.
    """
    return +Counter(
        {
            **_lost_fetches(committed.fetches, arrivals),
            "e-mails": len(committed.orders) - _submitted(committed.orders),
            **contradictions(events),
            "notifications": len(committed.notifications - set(Notification.objects.values_list("title", "user_id"))),
        }
    )


def _lost_fetches(fetches: Collection[int], arrivals: Iterable[Arrival]) -> dict[str, int]:
    done = _done(fetches)
    return {
        "fetches": len(set(fetches) - set(done)),
        "fetches that are done, and no site saw": _unseen(done, arrivals),
    }


def _done(fetches: Collection[int]) -> dict[int, str]:
    return dict(Fetch.objects.filter(pk__in=fetches, state=FetchState.DONE).values_list("pk", "url"))


def _unseen(done: Mapping[int, str], arrivals: Iterable[Arrival]) -> int:
    seen = {(arrival.host, arrival.path) for arrival in arrivals}
    return sum((url.hostname, url.path) not in seen for url in map(urlsplit, done.values()))


def _submitted(orders: Collection[int]) -> int:
    return Email.objects.filter(kind=SHIPPED, key__in=map(str, orders), state__in=SUBMITTED).count()


def contradictions(events: Iterable[Event]) -> Counter[str]:
    """Return how many e-mails ended otherwise than the mail server's list says, once all have ended; no zeros."""
    taken = {event.message_id for event in events}
    ends = dict(Email.objects.values_list("message_id", "state"))
    found = {
        "e-mails sent, and not accepted": sum(
            state == EmailState.SENT and message_id not in taken for message_id, state in ends.items()
        ),
        "e-mails accepted, and neither sent nor unknown": sum(
            ends.get(message_id) not in SUBMITTED for message_id in taken
        ),
    }
    return +Counter(found)


def shown_wrong(users: range = USERS) -> dict[int, tuple[int, int]]:
    """Return the users who are shown another number than that of their unread rows, with both."""
    shown, rows = inbox.unread_counts(users), Notification.objects.filter(user_id__in=users).numbers()
    return {user: (shown[user], rows[user]) for user in users if rows[user] != shown[user]}


def stored_wrong() -> int:
    """Return how many users' number in PostgreSQL is not that of their unread rows: right soon after the last write."""
    with connection.cursor() as cursor:
        cursor.execute(STORED_WRONG)
        [wrong] = cursor.fetchone()
    return int(wrong)
