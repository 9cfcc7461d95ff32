"""A host that is suspended, such as a laptop or a virtual machine: its timers stand still, and other hosts go on."""

import math
from typing import Any

import pytest

from tests.integration.conftest import Eventually
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Slot
from weir.ratelimit.slots import Reservation
from weir.ratelimit.throttle import throttle

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"
HOUR_S = 3_600.0
ASLEEP_AFTER_S = 0.03  # less than an interval after the second reservation, whose start is waited for


def test_a_slot_that_passed_meanwhile_is_not_used(eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is suspended for an hour while a caller waits for its start: it starts in another slot."""
    site_settings.set_rate(SITE, "5/s")
    real, asleep_at = clock.now, [math.inf]
    reserve, reserved = slots.reserve, []

    def reserving(*given: Any, **named: Any) -> Reservation:
        reserved.append(reserve(*given, **named))
        if len(reserved) == 2:
            asleep_at[0] = real() + ASLEEP_AFTER_S
        return reserved[-1]

    monkeypatch.setattr(clock, "now", lambda: real() + (HOUR_S if real() > asleep_at[0] else 0.0))
    monkeypatch.setattr(slots, "reserve", reserving)
    for _ in range(2):
        with throttle(SITE, max_wait=2 * HOUR_S):
            pass
    eventually(lambda: Slot.objects.exclude(finished_at=None).count() == 2, "both starts to be noted")
    missed = reserved[1].slots[0].id
    assert not Slot.objects.filter(pk=missed).exclude(finished_at=None).exists()
