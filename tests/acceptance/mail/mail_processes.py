"""What processes do that ship orders and send e-mails, to be killed.

`die_at` names a step at which a process kills itself, with SIGKILL.
"""

import os
import random
import signal
import smtplib
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from tests.acceptance.processes import die, die_around, goes_on  # isort: skip  first, as it sets Django up

from django.db import InterfaceError, OperationalError, close_old_connections, connection

from benchmarks.once.published import PublishedShippedEmail
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import leases, runner
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

# Where a process can be killed, and whether an e-mail that it is sending ends `unknown` then: it must, it cannot, or
# it may (None), if another of its senders is busy.
STEPS: dict[str, bool | None] = {
    "after claim": False,
    "before begin": False,
    "after begin": True,
    "before dot": True,
    "after dot": True,
    "before record": True,
    "after record": None,
}
MOST_ORDERS = 100_000  # of a clerk
PUBLISHED_STEPS = ("after _send", "before _mark", "after _mark")
Errors = tuple[type[Exception], ...]
LOST_POSTGRES = (OperationalError, InterfaceError)  # what to tolerate where connections are cut
DOT = b".\r\n"
END = b"\r\n" + DOT
AT_LENGTH = "WEIR_FAULTS" in os.environ
REST_S = 0.02  # between two rounds
LONG_REST_S = REST_S if AT_LENGTH else 0.1  # if the round before sent nothing
ORDER_EVERY_S = 0.01 if AT_LENGTH else 0.04  # of a clerk
# How the mail server treats e-mails (see demo.fakes.mail_server), and how many of each.
ADDRESSES = {
    "plain": 60,
    "late-200": 3,
    "late-1500": 1,
    "cut-before-dot": 6,
    "cut-unaccepted": 3,
    "cut-accepted": 3,
    "cut-after-reply": 6,
    "closing": 6,
    "greylist-1": 4,
    "refuse": 4,
    "refuse-content": 3,
    "stall-1200": 1,
}


def ship_orders(clerk: int, stop: Path, *, tolerated: Errors = ()) -> None:
    """Place orders and ship them, one after the other, until `stop` exists; after an error the next one."""
    keep_session()
    chance = random.Random(clerk)  # noqa: S311  not for secrets
    for number, address in enumerate(addresses(chance, MOST_ORDERS, str(clerk))):
        if not goes_on(stop):
            return
        with suppress(*tolerated):
            order = Order.objects.create(number=f"{clerk}-{number}", customer_email=address)
            shipping.ship(order.pk)
        close_old_connections()
        time.sleep(ORDER_EVERY_S)


def keep_sending(stop: Path, die_at: str = "", *, tolerated: Errors = ()) -> None:
    """Send what is due again and again, until `stop` exists; after an error once more, as the next task would."""
    keep_session()
    if die_at:
        _die_at(*die_at.split(" "))
    while goes_on(stop):
        sent = 0
        with suppress(*tolerated):
            sent = runner.send_due().sent
        close_old_connections()
        rest_after(sent)


def keep_session() -> None:
    """Let this process close its session with PostgreSQL only if that is broken: to open one takes long."""
    connection.settings_dict["CONN_MAX_AGE"] = None


def rest_after(sent: int) -> None:
    """Pause, longer if nothing was sent: a process that always asks takes the processors from those that have work."""
    time.sleep(REST_S if sent else LONG_REST_S)


def keep_sending_but_stand_still(stop: Path) -> None:
    """Send what is due again and again, and stop (SIGSTOP) where the first e-mail would begin."""
    begin = leases.begin

    def stand_still(email: Email, relay: str, key_lifetime: timedelta | None) -> None:
        leases.begin = begin
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # os.kill might stop another thread, and later
        begin(email, relay, key_lifetime)

    leases.begin = stand_still
    keep_sending(stop)


def keep_expiring(stop: Path) -> None:
    """End what has expired, again and again, as mailers do."""
    keep_session()
    while goes_on(stop):
        leases.end_expired(1.0)
        close_old_connections()
        time.sleep(LONG_REST_S)


def addresses(chance: random.Random, count: int, name: str) -> list[str]:
    """Return this many addresses, in the proportions of ADDRESSES."""
    words = chance.choices(tuple(ADDRESSES), tuple(ADDRESSES.values()), k=count)
    return [f"{word}.{name}-{number}@customers.example" for number, word in enumerate(words)]


def keep_sending_as_published(stop: Path, die_at: str = "") -> None:
    """Send by the published pattern again and again, until `stop` exists."""
    if die_at:
        when, step = die_at.split(" ")
        die_around(PublishedShippedEmail, step, when)
    while goes_on(stop):
        PublishedShippedEmail().send_all()


def _die_at(when: str, step: str) -> None:
    if (when, step) == ("before", "dot"):
        _die_without_a_dot()
    elif step == "dot":
        die_around(smtplib.SMTP, "send", when, lambda arguments, _: arguments[1].endswith(END))
    elif step == "claim":
        die_around(leases, "claim", when, lambda _, claimed: claimed)
    elif step == "record":
        die_around(leases, "record", when, lambda arguments, _: arguments[1].state == EmailState.SENT)
    else:
        die_around(leases, step, when)


def _die_without_a_dot() -> None:
    """Let this process die when the content is transmitted, as far as the network carries it before the dot."""
    send = smtplib.SMTP.send

    def send_or_die(server: smtplib.SMTP, data: bytes) -> None:
        if data.endswith(END):
            send(server, data.removesuffix(DOT))
            die()
        send(server, data)

    smtplib.SMTP.send = send_or_die  # type: ignore[assignment,method-assign]
