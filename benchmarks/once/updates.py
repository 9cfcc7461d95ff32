"""How long it takes to change an order while the mail server hangs, compared with changes without mail.

One client changes orders, one UPDATE after the other; every second UPDATE is of an order whose e-mail is being sent or
claimed. In each round the mail server lets every e-mail of two processes of `send_due` hang, at its recipient or after
its final dot, for longer than the round lasts; then the processes are killed. Rounds without mail take turns with
these, on the same rows.

With the published pattern, for comparison, `lock_timeout` ends an UPDATE of an order whose e-mail is being sent.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import quantiles

import psycopg

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.once import crew, queues
from benchmarks.rounds import middle, ratio, take_turns
from demo.fakes import mail_server
from demo.fakes.mail_server import MailServer
from weir.workers.mail.models import Email
from weir.workers.mail.phases import HELD
from weir.workers.mail.sending.source import BATCH

ROUNDS = 6
LASTS_S = 3.0
ORDERS = 20_000
PROCESSES = 2
HELD_ORDERS = PROCESSES * BATCH  # the first ones; no other order has an e-mail
HANGS = cycle(("stall-30000.%s@customers.example", "late-30000.%s@customers.example"))
HANGING = 6  # e-mails that hang before a round begins: a process tries a third one after a second
LOCK_TIMEOUT_S = 5
GIVE_UP_AFTER_S = 20.0
UPDATE = "UPDATE {} SET placed_at = clock_timestamp() WHERE id = %s"


def compare(folder: Path) -> list[Figure]:
    """Return both 99th percentiles, their ratio, and the longest UPDATE of each."""
    longest_ms = {"while_mail_hangs": 0.0, "idle": 0.0}

    def p99_ms(name: str) -> float:
        times_ms = _updates_ms()
        longest_ms[name] = max(longest_ms[name], *times_ms)
        return quantiles(times_ms, n=100)[98]

    def hanging() -> float:
        queues.fill(ORDERS, next(HANGS), HELD_ORDERS)
        with crew.running(PROCESSES, mail_server.HOST, server.port) as senders:
            began = _began(server)
            senders.begin("send_due")
            _wait_until(lambda: _began(server) - began >= HANGING and _held() == HELD_ORDERS)
            found = p99_ms("while_mail_hangs")
            if _held() != HELD_ORDERS:
                raise AssertionError("The mail server was to hang for the whole round, but e-mails came through")
        return found

    def idle() -> float:
        queues.fill(ORDERS, due=HELD_ORDERS)
        return p99_ms("idle")

    with mail_server.running(folder) as server:
        rounds = take_turns(ROUNDS, hanging, idle)
        published_ms = _published_ms(server)
    return [
        Figure(name="order_update_p99_while_mail_hangs", value=middle(rounds, 0), unit="ms"),
        Figure(name="order_update_p99_idle", value=middle(rounds, 1), unit="ms"),
        Figure(name="order_update_p99_while_mail_hangs_vs_idle", value=ratio(rounds, 0, 1), unit="x"),
        *(Figure(name=f"order_update_longest_{name}", value=value, unit="ms") for name, value in longest_ms.items()),
        Figure(name=f"published_order_update_stopped_after_{LOCK_TIMEOUT_S}_s", value=published_ms, unit="ms"),
    ]


def _updates_ms() -> list[float]:
    """Change orders for `LASTS_S`; return how long each UPDATE took, COMMIT included."""
    random = Random(0)  # noqa: S311  nothing secret
    times_ms = []
    with database.connect() as bare:
        end_at = time.perf_counter() + LASTS_S
        for most in cycle((HELD_ORDERS, ORDERS)):
            began = time.perf_counter()
            bare.execute(UPDATE.format("weir_orders_order"), [random.randint(1, most)])
            times_ms.append((time.perf_counter() - began) * 1_000)
            if began > end_at:
                return times_ms
    raise AssertionError  # cycle never ends


def _published_ms(server: MailServer) -> float:
    """Return how long an UPDATE of an order took while the published pattern was sending its e-mail."""
    queues.fill_published(1, next(HANGS))
    began = _began(server)
    with crew.running(1, mail_server.HOST, server.port) as sender, database.connect() as bare:
        sender.begin("published")
        _wait_until(lambda: _began(server) > began)
        bare.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
        began_at = time.perf_counter()
        with suppress(psycopg.errors.LockNotAvailable):  # expected: the UPDATE has waited for `LOCK_TIMEOUT_S`
            bare.execute(UPDATE.format("published_order"), [1])
        return (time.perf_counter() - began_at) * 1_000


def _began(server: MailServer) -> int:
    """Return how many e-mails the mail server has begun to receive."""
    return sum(event.event == "began" for event in server.events())


def _held() -> int:
    """Return how many e-mails are claimed or being sent."""
    held: int = Email.objects.filter(state__in=HELD).count()
    return held


def _wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + GIVE_UP_AFTER_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError("The processes did not begin to send.")
        time.sleep(0.05)
