"""SIGKILL at every step, while users read: each notification is read on the page or told by one digest.

The mail server's own list says what was told. `WEIR_FAULTS_USERS` sets the number of users of the long form.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from email import message_from_string
from email.message import Message
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import cast

import pytest
import redis
from django.conf import settings
from django.db.models.functions import Now
from pytest_django import Settings

from demo.fakes import mail_server
from demo.fakes.mail_server import MailServer
from tests.acceptance.digests import digest_processes as roles
from tests.acceptance.mail.test_mail_kills import unfinished
from tests.acceptance.processes import Processes
from tests.waiting import wait_for
from weir.notifications import flush, inbox, reconcile
from weir.notifications.channels import kinds, telling
from weir.notifications.models import Notification
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders.models import Order

AT_LENGTH = "WEIR_FAULTS" in os.environ
USERS = range(1, 1 + (int(os.environ.get("WEIR_FAULTS_USERS", "2000")) if AT_LENGTH else 40))
EACH = 5 if AT_LENGTH else 2  # notifications of a user, from each of two writers
KILLS = 100 if AT_LENGTH else 2  # at random
KILL_EVERY_S = max(0.3, 0.3 * len(USERS) / 2_000)  # at most: the more users, the longer they are told
KILLS_A_STEP = 10 if AT_LENGTH else 1
MAILERS = 2 if AT_LENGTH else 1  # besides the one that dies at a step
WITHIN_S = 3_600 if AT_LENGTH else 60
MAIL_SETTINGS = {
    "EMAIL_TIMEOUT": 1.0,
    "WEIR_MAIL_COMMAND_TIMEOUT": 1.0,
    "WEIR_MAIL_REPLY_TIMEOUT": 1.0,
    "WEIR_MAIL_LEASE": 2.0,
    "WEIR_MAIL_UNKNOWN_AFTER": 8.0 if AT_LENGTH else 4.0,
}
REFUSED = "refuse"  # how the addresses begin to which nothing can be told


@pytest.fixture
def server(tmp_path: Path, settings: Settings) -> Iterator[MailServer]:
    """A mail server that the settings name, which keeps what it accepts; with short times."""
    with mail_server.running(tmp_path, keeps=True) as running:
        settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = mail_server.HOST, running.port
        for name, value in MAIL_SETTINGS.items():
            setattr(settings, name, value)
        yield running


@pytest.fixture
def processes(
    transactional_db: None,  # noqa: ARG001  must come first
    tmp_path: Path,
    server: MailServer,  # noqa: ARG001  as above
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Processes]:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.flushdb()
    reconcile.run_pass()
    monkeypatch.setattr(kinds, "_kinds", {})
    monkeypatch.setattr(kinds, "_addresses", [])
    roles.register()
    made = Processes(tmp_path, roles.__name__, "REDIS_URL", "EMAIL_BACKEND", "EMAIL_HOST", "EMAIL_PORT", *MAIL_SETTINGS)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.faults
def test_whoever_is_killed_each_notification_is_read_or_told_once(processes: Processes, server: MailServer) -> None:
    """Mailers are killed at random and at each step, and so is who gathers; the server cuts, delays and refuses."""
    chance = random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  who is killed, and when
    began_at = time.monotonic()
    writers = [processes.start(roles.notify_users, USERS, EACH, seed) for seed in range(2)]
    processes.start(roles.keep_reading, USERS, 1, processes.stop)
    processes.start(roles.keep_gathering, processes.stop)
    mailers = [processes.start(roles.keep_mailing, processes.stop) for _ in range(MAILERS)]
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, KILL_EVERY_S))  # chance decides when
        processes.kill(mailers.pop(0))
        mailers.append(processes.start(roles.keep_mailing, processes.stop))
    for step in roles.STEPS * KILLS_A_STEP:
        role = roles.keep_gathering if step == roles.GATHER else roles.keep_mailing
        dying = processes.start(role, processes.stop, step)
        wait_for(partial(is_dead, dying, step, chance), WITHIN_S, f"a death {step}")
        processes.gone(dying)
    for writer in writers:
        writer.join(WITHIN_S)
    told = Accepted(server)
    wait_for(lambda: all_is_told(told), WITHIN_S, "everything to be told", every_s=0.2)
    print(f"\n{KILLS} were killed at random, {len(roles.STEPS) * KILLS_A_STEP} at a step; ", end="")
    print(f"all was told after {time.monotonic() - began_at:.0f} s.")
    processes.finish()
    judge(server)


def is_dead(dying: ForkServerProcess, step: str, chance: random.Random) -> bool:
    """Write what the process can die of; return whether it has."""
    inbox.notify_many(chance.sample(USERS, 5), roles.NEWS, f"{step} {time.monotonic_ns()}")
    dying.join(0.2)
    return not dying.is_alive()


class Accepted:
    """How often the server has accepted each Message-ID; reads of its list what is new."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._offset = 0
        self._times: Counter[str] = Counter()

    def so_far(self) -> Counter[str]:
        events, self._offset = self._server.events_since(self._offset)
        self._times.update(event.message_id for event in events if event.event == mail_server.ACCEPTED)
        return self._times


def all_is_told(told: Accepted) -> bool:
    """Return whether nothing waits any more; say of unknown digests what the mail server's list says of them."""
    unknown = list(Email.objects.filter(state=EmailState.UNKNOWN))
    accepted = told.so_far()  # after that: what was accepted is in the list before it is unknown
    for email in unknown:
        act = Act.ARRIVED if accepted[email.message_id] else Act.RESEND
        resolving.resolve(email.pk, act, "operator", "So says the mail server's list.")
    [is_due] = telling.DIGESTS_HAVE_WORK()
    if is_due or unfinished():
        return False
    soon = Notification.objects.filter(read_at=None, digest_due_at__lt=Now() + timedelta(minutes=1))
    return not soon.exists() and not unfinished() and not Email.objects.unknown().exists()


def judge(server: MailServer) -> None:
    """Compare what was written with what was read on the page, and with what the mail server says it was told."""
    told: Counter[tuple[int, str]] = Counter()
    digests = [event for event in server.events() if event.event == mail_server.ACCEPTED]
    for event in digests:
        lines = lines_of(message_from_string(event.content))
        user = int(event.recipient.partition("@")[0].rpartition(".u")[2])
        told.update((user, line) for line in lines)
    seen = set(map(int, Order.objects.values_list("number", flat=True)))
    wrong, unread = [], Counter[int]()
    rows = Notification.objects.only("user_id", "title", "read_at", "digest_id")
    for row in rows.iterator():
        times = (row.pk in seen) + told[row.user_id, row.title]
        is_left = row.read_at is None and roles.address(row.user_id).startswith(REFUSED)
        unread[row.user_id] += row.read_at is None
        if times != (0 if is_left else 1):
            wrong.append((row.pk, row.user_id, row.title, row.digest_id, row.pk in seen, told[row.user_id, row.title]))
    print(f"\n{Notification.objects.count()} notifications of {len(USERS)} users: {len(seen)} read on the page,")
    print(f"{told.total()} told by {len(digests)} digests, {unread.total()} left of who is refused; wrong: {wrong}")
    states = Counter(Email.objects.values_list("state", flat=True))
    flush.flush_sealed()
    repaired = reconcile.reconcile_users(None)
    print(f"{dict(states)}; of who died between COMMIT and Redis: {repaired.users} numbers")
    assert not wrong
    assert inbox.unread_counts(USERS) == {user: unread[user] for user in USERS}


def lines_of(email: Message) -> list[str]:
    """Return the titles that a digest lists; their number is the subject's."""
    text = next(part for part in email.walk() if part.get_content_type() == "text/plain").get_payload(decode=True)
    lines = cast("bytes", text).decode().splitlines()
    titles = [line.removeprefix("- ").strip() for line in lines if line.startswith("- ")]
    assert str(email["Subject"]).partition(" ")[0] == str(len(titles))
    return titles
