"""Fetchers that cannot do all that is due: what they are given, and which sites share it."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from ratelimit import site_settings
from ratelimit.models import Site
from tests.integration.conftest import Message
from workers import task_names
from workers.fetches import dispatch as dispatching
from workers.fetches.dispatch import ANY_NUMBER, GROWTH, LEAST_AHEAD, InHand, Overload, dispatch
from workers.fetches.enqueue import request_fetches
from workers.fetches.models import Fetch, State

SITES = 30

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


@pytest.fixture(autouse=True)
def overload(monkeypatch: pytest.MonkeyPatch) -> Overload:
    """What the process knows of an overload: nothing yet."""
    fresh = Overload()
    monkeypatch.setattr(dispatching, "_overload", fresh)
    return fresh


def ask(fetches: int) -> None:
    """Ask for so many pages at SITES sites, each of which would get sixty slots."""
    for number in range(SITES):
        site_settings.set_rate(f"site-{number}.example", "20/s")
    request_fetches([f"https://site-{number % SITES}.example/{number}" for number in range(fetches)])


def miss(fetches: int) -> None:
    """Let the slots of so many reserved fetches pass before a fetcher takes them, and those of no others."""
    Fetch.objects.filter(state=State.RESERVED).update(lease_until=Now() + timedelta(hours=1))
    missed = Fetch.objects.filter(state=State.RESERVED).order_by("pk")[:fetches].values_list("pk", flat=True)
    Fetch.objects.filter(pk__in=list(missed)).update(lease_until=Now())


def sites_served() -> set[int]:
    """Return the sites of which fetches are reserved."""
    return set(Fetch.objects.filter(state=State.RESERVED).values_list("site_id", flat=True))


def give_back() -> None:
    """Let the fetchers have given back all that they had in hand, and all sites be due."""
    Fetch.objects.filter(state=State.RESERVED).update(state=State.QUEUED, slot_id=None, lease_until=None)
    Site.objects.update(next_start=Now(), has_backlog=True, due_at=None)


def test_nothing_is_reserved_for_fetchers_that_are_behind(messages: list[Message]) -> None:
    """More than a message's worth of slots has passed before a fetcher took it: more would pass, too."""
    ask(900)
    assert dispatch() == 900
    miss(101)
    messages.clear()
    request_fetches(["https://another.example/"])
    assert (dispatch(), dispatch(list(Fetch.objects.values_list("site_id", flat=True).distinct()))) == (0, 0)
    assert task_names.FETCH_BATCH not in [name for name, _ in messages]


def test_a_message_that_was_lost_holds_up_nobody() -> None:
    """Up to a hundred fetches whose message went astray are no sign of an overload."""
    ask(900)
    dispatch()
    miss(100)
    request_fetches(["https://another.example/"])
    assert dispatch() == 1


def test_afterwards_the_sites_share_what_fetchers_can_do(overload: Overload) -> None:
    """Each tick reserves as much as there is room for, at the sites that the tick before did not come to."""
    ask(1_800)
    overload.begin()
    served: list[set[int]] = []
    for _tick in range(7):
        dispatch()
        served.append(sites_served())
        assert Fetch.objects.filter(state=State.RESERVED).count() < LEAST_AHEAD + 63  # the last site gets a whole run
        assert dispatch() == 0  # there is no room
        give_back()
    assert len(set().union(*served[:6])) == SITES
    assert not served[0] & served[1]


def test_an_overload_is_forgotten(overload: Overload, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again after a while whether fetchers can do all that is due."""
    ask(900)
    monkeypatch.setattr(dispatching, "OVERLOAD_LASTS", -1.0)
    overload.begin()
    assert dispatch() == 900


@pytest.mark.parametrize(
    ("late", "ended_per_s", "are_behind"),
    [(0, 0.0, False), (100, 0.0, False), (101, 0.0, True), (101, 203.0, False), (1_000, 1_000.0, True)],
)
def test_what_is_late_is_compared_with_what_fetchers_do(late: int, ended_per_s: float, are_behind: bool) -> None:
    """One of many fetchers that is killed is no overload."""
    assert InHand(late=late, reserved=2_000, ended_per_s=ended_per_s).are_behind(messages=0) is are_behind


def test_what_there_is_room_for_follows_what_fetchers_do(overload: Overload) -> None:
    """A little more than that, less what they have in hand; no limit where there was no overload."""
    busy = InHand(late=0, reserved=500, ended_per_s=1_000.0)
    assert overload.room(busy, 3.0) == ANY_NUMBER
    overload.begin()
    assert overload.room(busy, 3.0) == GROWTH * 3_000 - 500
    assert overload.room(InHand(late=0, reserved=10, ended_per_s=1.0), 3.0) == LEAST_AHEAD - 10
