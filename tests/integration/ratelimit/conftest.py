"""What the tests of slots need: one site, and its starts."""

from datetime import datetime
from typing import Any

from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.slots import Reservation

SITE = "site.example"
DAY = 86_400.0


def wait_s(reservation: Reservation) -> float:
    return reservation.slots[0].start_at - clock.now()


def site_at(rate: str = "1/10s", **settings: Any) -> Site:
    site_settings.set_rate(SITE, rate, **settings)
    return Site.objects.get(name=SITE)


def take(count: int = 1) -> Reservation:
    return slots.reserve(SITE, count, max_wait=DAY)


def starts() -> list[datetime]:
    return list(Slot.objects.order_by("start_time").values_list("start_time", flat=True))
