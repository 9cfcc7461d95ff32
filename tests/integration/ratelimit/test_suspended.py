"""A host that is suspended, such as a laptop or a virtual machine: its timers stand still, and other hosts go on."""

import time

import pytest

from ratelimit import clock, site_settings
from ratelimit.models import Slot
from ratelimit.throttle import throttle
from tests.integration.conftest import Eventually

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"
HOUR_S = 3_600.0


@pytest.fixture
def suspended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the host suspended for an hour in the first wait of this process."""
    real, ahead, sleep = clock.now, [0.0], time.sleep

    def suspended(seconds: float) -> None:
        sleep(seconds)
        ahead[0] = HOUR_S

    monkeypatch.setattr(clock, "now", lambda: real() + ahead[0])
    monkeypatch.setattr(time, "sleep", suspended)


@pytest.mark.usefixtures("suspended_once")
def test_a_slot_that_passed_meanwhile_is_not_used(eventually: Eventually) -> None:
    """It is given back, with all others of its run, and the start is made in another one."""
    site_settings.set_rate(SITE, "10/s")
    with throttle(SITE):
        pass  # without a wait
    with throttle(SITE, max_wait=2 * HOUR_S):
        pass
    eventually(lambda: not Slot.objects.filter(finished_at=None, released_at=None).exists(), "all slots to be noted")
    first, second = Slot.objects.exclude(finished_at=None).order_by("pk")
    assert Slot.objects.filter(pk__gt=first.pk, pk__lt=second.pk).exclude(released_at=None).exists()
