"""What became of all jobs, by the lists of others: the sites, the mail server, the rows: nothing is lost or sent twice.

Promises are judged by identity, never by totals: where one is lost and another is there that nobody counted, as its
COMMIT went through and the reply was lost in a fault, the totals are right.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from demo.fakes.mail_server import ACCEPTED, Event, MailServer
from demo.fakes.site_log import Arrival
from notifications.models import Notification
from tests.acceptance.all_jobs import Committed
from workers.fetches.models import Fetch
from workers.fetches.models import State as FetchState
from workers.mail.models import Email
from workers.mail.phases import State
from workers.orders.models import SHIPPED

SUBMITTED = (State.SENT, State.UNKNOWN)  # the mail server has it, or may have it


def accepted(mails: MailServer) -> list[Event]:
    """Return what the mail server has accepted."""
    return [event for event in mails.events() if event.event == ACCEPTED]


def twice(events: Collection[Event]) -> int:
    """Return how many e-mails were accepted more than once: with the same Message-ID, or for the same recipient."""
    return max(
        sum(times > 1 for times in Counter(same).values())
        for same in ([event.message_id for event in events], [event.recipient for event in events])
    )


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
    done = dict(Fetch.objects.filter(pk__in=fetches, state=FetchState.DONE).values_list("pk", "url"))
    seen = {(arrival.host, arrival.path) for arrival in arrivals}
    asked = {pk: urlsplit(url) for pk, url in done.items()}
    return {
        "fetches": len(set(fetches) - set(done)),
        "fetches that are done, and no site saw": sum((url.hostname, url.path) not in seen for url in asked.values()),
    }


def _submitted(orders: Collection[int]) -> int:
    return Email.objects.filter(kind=SHIPPED, key__in=map(str, orders), state__in=SUBMITTED).count()


def contradictions(events: Iterable[Event]) -> dict[str, int]:
    """Return how many e-mails ended otherwise than the mail server's list says, once all have ended."""
    taken = {event.message_id for event in events}
    ends = dict(Email.objects.values_list("message_id", "state"))
    return {
        "e-mails sent, and not accepted": sum(
            state == State.SENT and message_id not in taken for message_id, state in ends.items()
        ),
        "e-mails accepted, and neither sent nor unknown": sum(
            ends.get(message_id) not in SUBMITTED for message_id in taken
        ),
    }
