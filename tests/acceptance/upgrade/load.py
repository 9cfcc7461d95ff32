"""Web code of whichever version is on the path: it asks for work in rounds, and looks at the unread numbers in each.

Rounds of two versions do not overlap, as they write to the same users: so each sees the numbers that must be right.
Prints a line of JSON for each round, and ends at SIGTERM.
"""

import fcntl
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import django

django.setup()

from weir.notifications import inbox  # noqa: E402  needs Django
from weir.notifications.models import Notification  # noqa: E402
from weir.ratelimit import site_settings  # noqa: E402
from weir.workers.fetches.enqueue import request_fetches  # noqa: E402
from weir.workers.fetches.models import Fetch  # noqa: E402
from weir.workers.orders import shipping  # noqa: E402
from weir.workers.orders.models import Order  # noqa: E402

USERS = range(1, 31)
EVERY_S = 0.25
BACKLOG = 10.0  # seconds for which there is always work
ending = False


def end(*_signal: object) -> None:
    global ending  # noqa: PLW0603
    ending = True


def fetch(rates: dict[str, int], name: str, number: int) -> int:
    """Give each site work for a while; returns how many URLs were asked for."""
    waiting = Counter(Fetch.objects.unfinished().values_list("site__name", flat=True))
    urls = [
        f"http://{site}/ok/{name}-{number}-{place}"
        for site, rate in rates.items()
        for place in range(int(rate * BACKLOG) - waiting[site])
    ]
    request_fetches(urls, max_attempts=100)
    return len(urls)


def notify(number: int) -> dict[int, tuple[int, int]]:
    """Write, read and count; returns the users who were shown a wrong number, with it and the right one."""
    inbox.notify_many([*USERS], "news", "Hello")
    inbox.mark_all_read(USERS[number % len(USERS)])
    shown = inbox.unread_counts(USERS)
    rows = Counter(Notification.objects.filter(user_id__in=USERS, read_at=None).values_list("user_id", flat=True))
    return {user: (shown[user], rows[user]) for user in USERS if rows[user] != shown[user]}


def ship(name: str, number: int) -> None:
    order = Order.objects.create(number=f"{name}-{number}", customer_email=f"plain.{name}.{number}@customers.example")
    shipping.ship(order.pk)


def main() -> None:
    """Go on until SIGTERM: `load.py NAME LOCK RATES`."""
    name, lock, rates = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    signal.signal(signal.SIGTERM, end)
    for site, rate in rates.items():
        site_settings.set_rate(site, f"{rate}/s")
    number = 0
    while not ending:
        with lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            number += 1
            asked, wrong = fetch(rates, name, number), notify(number)
            ship(name, number)
        line = {"at": time.time(), "asked": asked, "wrong": wrong, "code": shipping.__file__}
        print(json.dumps(line), flush=True)
        time.sleep(EVERY_S)


main()
