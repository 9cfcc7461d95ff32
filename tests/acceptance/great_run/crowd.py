"""Web code of all three jobs, in processes that are killed in the middle of it.

This module is also the program that they are forks of: it reads a role and a seed a line, and answers with the number
of the process. Each transaction notes in a table what it commits, and its process in a file that it has committed.
"""

import json
import os
import random
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from tests.acceptance import processes as _django  # noqa: F401  isort: skip  first, as it sets Django up

from django.db import Error, connection, transaction

from demo.fakes.children import die_with_parent
from tests.acceptance.mail.mail_processes import addresses
from tests.acceptance.notifications.unread_processes import WRITES
from tests.forked import Forked
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

USERS: Final = range(1, 201)
AHEAD_S = 12  # of work that each site has in the queue
AT_ONCE = 10  # URLs of a site in a transaction
SITES_AT_ONCE = 6
ORDERS_AT_ONCE = 3
MOST_EMAILS = 300  # on the way: mailers that are killed send some ten a second
ON_THE_WAY = (EmailState.PENDING, EmailState.CLAIMED, EmailState.SENDING)
MOST_ATTEMPTS = 1_000
AFTER_ERROR_S = 0.2
PAUSE_S = 0.2
HOLD_S = 2.0
PAGES = ("livez", "readyz", "healthz", "sign-in/")

TABLE = "CREATE TABLE great_run (number bigserial PRIMARY KEY, fetches bigint[] NOT NULL, orders bigint[] NOT NULL)"
NOTE = "INSERT INTO great_run (fetches, orders) VALUES (%s, %s) RETURNING number"


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the processes need to know: the sites with the rate of each in requests a second, and where they write."""

    rates: dict[str, float]
    site_port: int
    web_port: int
    commits: str
    log: str


@dataclass
class Made:
    """What a transaction made."""

    fetches: list[int] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)


class Crowd:
    """The processes, by role, as the test has them."""

    def __init__(self, place: Place, environment: dict[str, str], chance: random.Random) -> None:
        self.members: dict[str, list[int]] = {role: [] for role in ROLES}
        self._chance = chance
        self._source = Forked("-m", __name__, json.dumps(asdict(place)), environment=environment)

    def start(self, role: str) -> None:
        self._source.stdin.write(f"{role} {self._chance.random()}\n")
        self.members[role].append(int(self._source.stdout.readline()))

    def kill(self, role: str) -> None:
        """End one of a role with SIGKILL, and start another."""
        members = self.members[role]
        os.kill(members.pop(self._chance.randrange(len(members))), signal.SIGKILL)
        self.start(role)

    def ended(self) -> list[str]:
        """Forget those that have ended by themselves; returns the role of each."""
        ended = [(role, pid) for role, members in self.members.items() for pid in members if not _lives(pid)]
        for role, pid in ended:
            self.members[role].remove(pid)
        return [role for role, _ in ended]

    def kill_all(self, *roles: str) -> None:
        """End all of some roles."""
        for role in roles:
            for pid in self.members[role]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.members[role].clear()

    def close(self) -> None:
        self.kill_all(*ROLES)
        self._source.kill()
        self._source.wait()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- what they do -----------------------------------------------------------------------------------------------------


@contextmanager
def _committed(place: Place) -> Iterator[Made]:
    """Commit what was made together with a note of it, and note outside of PostgreSQL that it was committed."""
    made = Made()
    with transaction.atomic():
        yield made
        with connection.cursor() as cursor:
            cursor.execute(NOTE, [made.fetches, made.orders])
            [number] = cursor.fetchone()
    file = os.open(place.commits, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"%d\n" % number)
    os.close(file)


def _ask(place: Place, made: Made, chance: random.Random) -> None:
    """Ask for pages of sites that have less to do than they can do in `AHEAD_S`."""
    waiting = Counter(urlsplit(url).hostname for url in Fetch.objects.unfinished().values_list("url", flat=True))
    short = {host: round(rate * AHEAD_S) - waiting[host] for host, rate in place.rates.items()}
    hosts = [host for host, missing in short.items() if missing > 0]
    urls = [
        f"http://{host}:{place.site_port}/ok/{uuid.uuid4().hex}"
        for host in chance.sample(hosts, min(len(hosts), SITES_AT_ONCE))
        for _ in range(min(short[host], AT_ONCE))
    ]
    made.fetches += [fetch.pk for fetch in request_fetches(urls, max_attempts=MOST_ATTEMPTS)]


def _ship(_place: Place, made: Made, chance: random.Random) -> None:
    """Ship some orders, unless the mailers have enough to do."""
    if Email.objects.filter(state__in=ON_THE_WAY).count() >= MOST_EMAILS:
        return
    number = uuid.uuid4().hex
    for place, address in enumerate(addresses(chance, ORDERS_AT_ONCE, number)):
        order = Order.objects.create(number=f"{number}-{place}", customer_email=address)
        shipping.ship(order.pk)
        made.orders.append(order.pk)


def _tell(_place: Place, _made: Made, chance: random.Random) -> None:
    chance.choice(WRITES)(chance.choice(USERS), USERS, chance)


STEPS = (_ask, _ship, _tell, _tell)


def produce(place: Place, chance: random.Random) -> None:
    """Do one thing after the other, each in a transaction; some of the notifications without one."""
    while True:
        step = chance.choice((*STEPS, None))
        with _going_on():
            if step is None:
                _tell(place, Made(), chance)
                continue
            with _committed(place) as made:
                step(place, made, chance)
        time.sleep(chance.uniform(0, PAUSE_S))


def hold(place: Place, chance: random.Random) -> None:
    """Do everything in one transaction, and hold that for a while before it is committed."""
    while True:
        with _going_on(), _committed(place) as made:
            for step in chance.sample(STEPS, len(STEPS)):
                step(place, made, chance)
            time.sleep(chance.uniform(0, HOLD_S))


def visit(place: Place, chance: random.Random) -> None:
    """Look at pages of the web process."""
    while True:
        with suppress(URLError, OSError):
            urlopen(f"http://127.0.0.1:{place.web_port}/{chance.choice(PAGES)}", timeout=5).read()
        time.sleep(chance.uniform(0, 1))


ROLES: dict[str, Callable[[Place, random.Random], None]] = {"producer": produce, "holder": hold, "visitor": visit}


@contextmanager
def _going_on() -> Iterator[None]:
    """Go on after an error of PostgreSQL, with another connection, as the next request of a user does."""
    try:
        yield
    except Error:
        connection.close()
        time.sleep(AFTER_ERROR_S)


def main() -> None:
    """Fork for each line, until there is none any more."""
    place = Place(**json.loads(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        role, seed = line.split()
        if not (pid := os.fork()):
            _become(role, seed, place)
        print(pid, flush=True)


def _become(role: str, seed: str, place: Place) -> None:
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    ROLES[role](place, random.Random(seed))  # noqa: S311  no secret


if __name__ == "__main__":
    main()
