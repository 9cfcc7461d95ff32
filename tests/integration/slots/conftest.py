"""What the tests of slots need: one lane, and its starts."""

import time
from datetime import datetime
from typing import Any

from ratelimit import slots
from ratelimit.models import Site, Slot
from ratelimit.slots import Reservation

LANE = "site.example"
DAY = 86_400.0


def wait_s(reservation: Reservation) -> float:
    return reservation.slots[0].start_at - time.monotonic()


def lane(rate: str = "1/10s", **settings: Any) -> Site:
    slots.set_rate(LANE, rate, **settings)
    return Site.objects.get(name=LANE)


def take(count: int = 1) -> Reservation:
    return slots.reserve(LANE, count, max_wait=DAY)


def starts() -> list[datetime]:
    return list(Slot.objects.order_by("start_time").values_list("start_time", flat=True))
