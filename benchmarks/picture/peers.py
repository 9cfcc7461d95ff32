"""The side without Weir, the peers: what is published most often for Django and Celery, in its documented form.

- Paced, `rate_limit`: Celery's `rate_limit`, with two workers. Celery's manual says that it limits each worker.
- Paced, `lock`: before a request, a worker takes redis-py's `Lock` of the site, which expires after the interval
  (`SET NX PX`). The lock spaces permissions; a request that starts late comes closer to the next one.
- Counted, `published`: deltas in Redis, which a flush takes out, and then adds to PostgreSQL
  (`benchmarks.unread.published`).
- Once, `loop`: lock an order that is not flagged, send, flag, commit (`benchmarks.once.published`).
- Once, `task`: a Celery task with `acks_late`, which is delivered again if its process is killed (`mail_task`).

Notifications are rows of Weir's table, so that there is something to count; the number beside them is the peer's own.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.db import transaction

from benchmarks.fetches import celery_peer, own_processes
from benchmarks.figures import Figure
from benchmarks.once import published as published_email
from benchmarks.once import queues
from benchmarks.picture import mail_task, roles
from benchmarks.picture.killed import Kind
from benchmarks.picture.size import RATE, Size
from benchmarks.picture.turn import EMAILS_AHEAD, Outside, recipient
from benchmarks.unread import published as published_unread
from benchmarks.unread import stores
from demo.fakes import mail_server
from weir.notifications import inbox
from weir.notifications.models import Notification

LOOP, TASK, RATE_LIMIT, LOCK = "loop", "task", "rate_limit", "lock"
COUNTS: Final = {"lock": 4, "flush": 1, "loop": 2}  # processes
NOTHING_COMES_S: Final = 15.0  # then nobody sends any more


class Peers:
    """The peers, each with processes of its own."""

    name = "peers"
    pacers: Sequence[str] = (RATE_LIMIT, LOCK)
    mailers: Sequence[str] = (LOOP, TASK)

    def __init__(self, size: Size) -> None:
        self._size = size
        self._shipped = dict.fromkeys(self.mailers, 0)
        self._hosts = Path()
        self._last: Mapping[str, int] = {}  # how many e-mails had not come, and since when
        self._last_at = 0.0
        self._unread = published_unread.PublishedUnread()
        self._emails = published_email.PublishedShippedEmail()

    def kinds(self, port: int) -> list[Kind]:
        environment = {
            "EMAIL_BACKEND": published_email.BACKEND,
            "EMAIL_HOST": mail_server.HOST,
            "EMAIL_PORT": str(port),
        }
        limited = [sys.executable, celery_peer.__file__, settings.CELERY_BROKER_URL, RATE, str(self._hosts)]
        task = [sys.executable, "-m", mail_task.__name__]
        return [
            Kind(name="rate-limit", command=limited, environment={}, count=2),
            Kind(name="task", command=task, environment=environment),
            *(
                Kind(
                    name=role,
                    command=roles.command(role, count),
                    environment=environment,
                )
                for role, count in COUNTS.items()
            ),
        ]

    def begin(self, urls: Mapping[str, list[str]], folder: Path) -> None:
        empty()
        published_unread.create_table()
        published_email.create_table()
        self._hosts = folder / "hosts.txt"
        self._hosts.write_text("\n".join(sorted({str(urlsplit(url).hostname) for url in urls[RATE_LIMIT]})))
        celery_peer.publish(settings.CELERY_BROKER_URL, urls[RATE_LIMIT])
        with redis.Redis.from_url(settings.REDIS_URL) as client:
            client.rpush(roles.URLS, *urls[LOCK])

    def act(self, chance: Random, waiting: Mapping[str, int]) -> None:
        users = chance.sample(self._size.users, self._size.users_at_once)
        with transaction.atomic():
            inbox.notify_many(users, "news", "Hello")
            for user in users:
                self._unread.add(user, 1)
        user = chance.choice(self._size.users)
        with transaction.atomic():
            self._unread.add(user, -inbox.mark_all_read(user))
        self._emails.place(self._addresses(LOOP, waiting))
        for address in self._addresses(TASK, waiting):
            mail_task.send.delay(address)

    def _addresses(self, mailer: str, waiting: Mapping[str, int]) -> list[str]:
        """Return the addresses of the orders that are shipped in this step."""
        before = self._shipped[mailer]
        self._shipped[mailer] += max(0, EMAILS_AHEAD - waiting[mailer])
        return [recipient(mailer, number) for number in range(before + 1, self._shipped[mailer] + 1)]

    def shipped(self) -> Mapping[str, int]:
        return self._shipped

    def has_settled(self, outside: Outside) -> bool:
        waiting = outside.waiting(self._shipped)
        if waiting != self._last:
            self._last, self._last_at = waiting, time.monotonic()
        return not any(waiting.values()) or time.monotonic() > self._last_at + NOTHING_COMES_S

    def figures(self, outside: Outside) -> Iterator[Figure]:  # noqa: ARG002  the peers report nothing
        self._unread.flush()
        rows = Notification.objects.filter(user_id__in=self._size.users).numbers()
        right = dict.fromkeys(self._size.users, 0) | dict(rows)
        wrong = sum(self._unread.number(user) != unread for user, unread in right.items())
        yield Figure(name="picture_peers_numbers", value=len(right), unit="numbers")
        yield Figure(name="picture_peers_wrong", value=wrong, unit="numbers")


def empty() -> None:
    """Delete what all three jobs have stored, and make Weir trust the empty Redis."""
    own_processes.empty()
    queues.empty()
    stores.empty()
    stores.become_trusted()
