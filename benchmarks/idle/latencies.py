"""How soon a Weir that has nothing to do begins what it is asked for.

- From the commit of `request_fetch` to the first byte of the request at the site. Each fetch has a site of its own.
- From the commit of `notify` to the stored number: the flush.
- From the commit of `send_once` to the end of the content at the mail server.

Fetches and e-mails are asked for one after the other, a second apart. A flush comes every two seconds, so how long a
notification waits depends on when it comes: NOTIFIED users, a fifth of a second apart, come at all times alike.
"""

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any
from uuid import uuid4

from aiosmtpd.controller import Controller
from django.contrib.auth import get_user_model

from benchmarks.figures import Figure
from demo.fakes import site_log, sites
from weir.notifications import inbox
from weir.notifications.models import UnreadCount
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.mail import outbox
from weir.workers.orders.models import SHIPPED, Order

TIMES = 60
NOTIFIED = 300
NOTIFIED_EVERY_S = (0.1, 0.3)
SITES = 2 * TIMES  # each fetch of each of the two layouts has a site of its own
APART_S = (0.3, 1.3)  # at any phase of the ticks
GIVE_UP_S = 30.0
LOOKED_AT_EVERY_S = 0.002


@dataclass(kw_only=True)
class _Received:
    """A handler for aiosmtpd; it knows when the content of each e-mail had come, by its recipient."""

    at: dict[str, float] = field(default_factory=dict)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: ANN401, N802  aiosmtpd's
        """Accept an e-mail."""
        self.at.update(dict.fromkeys(envelope.rcpt_tos, time.time()))
        return "250 OK"


@dataclass(frozen=True, kw_only=True)
class Fakes:
    """Fake sites, and a mail server; and the variables by which processes find the mail server."""

    sites: sites.Sites
    unasked: Iterator[int]  # the numbers of the sites that no fetch has been sent to
    received: _Received
    environment: Mapping[str, str]


@contextmanager
def fakes(folder: Path) -> Iterator[Fakes]:
    """Run them."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    received = _Received()
    server = Controller(received, hostname="127.0.0.1", port=port)
    (folder / "requests.log").unlink(missing_ok=True)
    with sites.running(SITES, folder) as running:
        server.start()
        try:
            yield Fakes(
                sites=running,
                unasked=iter(range(SITES)),
                received=received,
                environment={"EMAIL_HOST": "127.0.0.1", "EMAIL_PORT": str(port), "WEIR_OBEY_ROBOTS": "false"},
            )
        finally:
            server.stop()


def measure(layout: str, fakes: Fakes) -> Iterator[Figure]:
    """Yield the median and the 99th percentile of each latency."""
    for name, taken in {
        "fetch": _repeated(partial(_fetch, fakes)),
        "notify": _notified(),
        "send_once": _repeated(partial(_send_once, fakes)),
    }.items():
        seconds = list(taken)
        yield Figure(name=f"idle_{layout}_{name}_p50", value=1000 * median(seconds), unit="ms")
        yield Figure(name=f"idle_{layout}_{name}_p99", value=1000 * quantiles(seconds, n=100)[98], unit="ms")


def _repeated(once: Callable[[], float]) -> Iterator[float]:
    chance = Random(41)  # noqa: S311  phases
    for _ in range(TIMES):
        time.sleep(chance.uniform(*APART_S))
        yield once()


def _fetch(fakes: Fakes) -> float:
    place = next(fakes.unasked)
    began = time.time()
    request_fetch(fakes.sites.url(place, "/ok/idle"))

    def arrived() -> float | None:
        arrivals, _ = site_log.read_arrivals(fakes.sites.log)
        return next((one.at_ns / 1e9 for one in arrivals if one.host == fakes.sites.hosts[place]), None)

    return _when(arrived) - began


def _notified() -> Iterator[float]:
    users = get_user_model().objects.bulk_create(get_user_model()(username=uuid4().hex) for _ in range(NOTIFIED))
    chance = Random(41)  # noqa: S311  phases
    began: dict[int, float] = {}
    for user in users:
        began[user.pk] = time.time()
        inbox.notify(user.pk, "idle", "")
        next_at = time.time() + chance.uniform(*NOTIFIED_EVERY_S)
        while time.time() < next_at:
            yield from _stored(began)
    while began:
        if time.time() > next_at + GIVE_UP_S:
            raise TimeoutError(f"{len(began)} numbers were not stored within {GIVE_UP_S:g} s")
        yield from _stored(began)


def _stored(began: dict[int, float]) -> Iterator[float]:
    """Yield how long the users waited whose numbers are stored by now, and forget them."""
    for user_id in UnreadCount.objects.filter(user_id__in=began).values_list("user_id", flat=True):
        yield time.time() - began.pop(user_id)
    time.sleep(LOOKED_AT_EVERY_S)


def _send_once(fakes: Fakes) -> float:
    number = uuid4().hex
    recipient = f"{number}@example.com"
    order = Order.objects.create(number=number, customer_email=recipient)
    began = time.time()
    outbox.send_once(SHIPPED, number, to=recipient, context={"order_id": order.pk})
    return _when(lambda: fakes.received.at.get(recipient)) - began


def _when(told: Callable[[], float | None]) -> float:
    give_up_at = time.monotonic() + GIVE_UP_S
    while (at := told()) is None:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"nothing came of it within {GIVE_UP_S:g} s")
        time.sleep(LOOKED_AT_EVERY_S)
    return at
