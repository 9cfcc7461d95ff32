"""An estimate says what a reservation would get, and changes nothing."""

import math
import pickle
from datetime import timedelta

import pytest

from tests.integration.ratelimit.conftest import DAY, SITE, site_at, take
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.slots import SlotTooFar

pytestmark = pytest.mark.django_db(transaction=True)


def reserved() -> None:
    for _ in range(3):
        take()


def given_back() -> None:
    slots.release([take() for _ in range(4)][2].slots[0].id)


def run_given_back() -> None:
    slots.release(*(slot.id for slot in take(3).slots))


def paused() -> None:
    reserved()
    site_settings.pause(SITE, timedelta(minutes=10))


def given_back_and_paused() -> None:
    given_back()
    site_settings.pause(SITE, timedelta(minutes=10))


def backed_off() -> None:
    given_back()
    site_settings.back_off(SITE, 25)


SITUATIONS = {
    "idle": lambda: None,
    "reserved": reserved,
    "given back": given_back,
    "a run given back": run_given_back,
    "paused": paused,
    "given back and paused": given_back_and_paused,
    "backed off": backed_off,
}


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_estimate_is_what_a_reservation_then_gets(situation: str, burst: int) -> None:
    """Whatever the state of the site, the estimate is the wait of a reservation now, and writes nothing."""
    site_at(burst=burst)
    SITUATIONS[situation]()
    before = Slot.objects.count(), Site.objects.get().next_start
    estimated_at = clock.now() + slots.estimate(SITE)
    assert (Slot.objects.count(), Site.objects.get().next_start) == before
    assert take().slots[0].start_at == pytest.approx(estimated_at, abs=0.25)


def test_an_unknown_site_is_estimated_idle_and_not_created() -> None:
    """A site that does not exist would start immediately."""
    assert slots.estimate("unknown.example") == 0
    assert not Site.objects.exists()


def test_the_estimate_for_a_site_that_is_paused_until_resumed_is_infinite() -> None:
    """The estimate is infinite, and a refusal says that the site has to be resumed, also in another process."""
    site_at()
    site_settings.pause(SITE)
    assert slots.estimate(SITE) == math.inf
    with pytest.raises(SlotTooFar, match=r"site\.example is paused until it is resumed\.$") as refusal:
        take()
    assert refusal.value.retry_after == math.inf
    assert pickle.loads(pickle.dumps(refusal.value)).retry_after == math.inf  # noqa: S301  our own


def test_a_pause_with_an_end_is_estimated_in_seconds() -> None:
    """However long it is: only a wait without a known end is infinite."""
    site_at()
    site_settings.pause(SITE, timedelta(days=366))
    assert slots.estimate(SITE) == pytest.approx(366 * DAY, abs=60)
    with pytest.raises(SlotTooFar, match=r"The next free start of site\.example is 31622\d{3}\.\d{3} s away\.$"):
        take()
