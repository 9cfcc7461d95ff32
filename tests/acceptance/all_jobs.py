"""All three jobs on a PostgreSQL of a test's own, which the cluster and this process use."""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import override_settings

from demo.fakes import mail_server
from demo.fakes.mail_server import MailServer
from tests import own_servers
from tests.acceptance.conftest import Cluster
from weir.notifications import inbox
from weir.postgres.timeline import gate
from weir.redis_link import calls, keys
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

USERS: Final = range(1, 31)
ON_THE_WAY: Final = (EmailState.PENDING, EmailState.CLAIMED, EmailState.SENDING)


@contextmanager
def on(
    cluster: Cluster, hosts: str, *, owner: str = "postgres", role: str = "postgres", **options: str
) -> Iterator[None]:
    """Let this process, and the cluster's, use the database at these hosts, and the cluster's Redis.

    Tables are made as `owner`, and used as `role`.
    """
    connection.close()
    parameters = "".join(f"&{name}={value}" for name, value in options.items())
    cluster.environment["DATABASE_URL"] = f"postgresql://{role}@/{own_servers.NAME}?host={hosts}{parameters}"
    url = cluster.environment["REDIS_URL"]
    with override_settings(REDIS_URL=url), pytest.MonkeyPatch.context() as patched:
        for key, value in {"NAME": own_servers.NAME, "HOST": hosts, "USER": owner}.items():
            patched.setitem(connection.settings_dict, key, value)
        patched.setitem(connection.settings_dict, "OPTIONS", {**connection.settings_dict["OPTIONS"], **options})
        forget()
        call_command("migrate", verbosity=0)
        call_command("sync_schedule", verbosity=0)
        connection.close()
        patched.setitem(connection.settings_dict, "USER", role)
        try:
            yield
        finally:
            cluster.stop()
            connection.close()
    forget()


def forget() -> None:
    """Know nothing of PostgreSQL's history, nor of a Redis and our keys there: as a process that begins."""
    gate.forget()
    keys.forget()
    calls.forget()


@contextmanager
def mails(cluster: Cluster) -> Iterator[MailServer]:
    """Run a mail server that the cluster's mailers use."""
    with mail_server.running(cluster.folder) as running:
        cluster.environment |= {"EMAIL_HOST": mail_server.HOST, "EMAIL_PORT": str(running.port)}
        yield running


def emails_ended() -> bool:
    """Tell whether no mailer has anything to do with any e-mail any more, but for those that are `unknown`."""
    return not Email.objects.filter(state__in=ON_THE_WAY).exists()


def ship(count: int, *, treated: str = "plain") -> list[int]:
    """Place and ship so many orders, each with an e-mail to an address of its own; returns the orders.

    `treated`: as demo.fakes.mail_server says. What PostgreSQL refuses is tried once more, as a user would: around a
    step of its clock it ends sessions that are idle in a transaction for far less than the time that they have.
    """
    shipped = []
    for _ in range(count):
        number = uuid.uuid4().hex
        order = Order.objects.create(number=number, customer_email=f"{treated}.{number}@customers.example")
        try:
            shipping.ship(order.pk)
        except OperationalError:
            connection.close()
            shipping.ship(order.pk)
        shipped.append(order.pk)
    return shipped


@dataclass(frozen=True, kw_only=True)
class Committed:
    """What web code has committed, noted outside of PostgreSQL: a COMMIT whose reply was lost is not in it."""

    fetches: set[int] = field(default_factory=set)
    orders: set[int] = field(default_factory=set)  # each has an e-mail
    notifications: set[tuple[str, int]] = field(default_factory=set)  # title and user

    def fetch(self, urls: Iterable[str], *, priority: int = 0) -> None:
        """Ask for pages."""
        self.fetches.update(fetch.pk for fetch in request_fetches(urls, max_attempts=100, priority=priority))

    def ship(self, count: int, *, treated: str = "plain") -> None:
        """Ship so many orders."""
        for _ in range(count):
            self.orders.update(ship(1, treated=treated))

    def notify(self) -> None:
        """Notify all users, with a title that no other notification has."""
        title = f"Hello {uuid.uuid4().hex}"
        inbox.notify_many([*USERS], "news", title)
        self.notifications.update((title, user) for user in USERS)
