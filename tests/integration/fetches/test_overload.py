"""Fetchers that cannot do all that is due: what they are given, and which sites share it."""

from datetime import timedelta

import pytest
from django.db.models import Count
from django.db.models.functions import Now

from tests.integration.conftest import Message
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers import task_names
from weir.workers.fetches import dispatch as dispatching
from weir.workers.fetches.dispatch import ANY_NUMBER, FEWEST, GROWTH, LEAST_AHEAD, InHand, Overload, dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

SITES = 30

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


@pytest.fixture(autouse=True)
def overload(monkeypatch: pytest.MonkeyPatch) -> Overload:
    """Return what the process knows of an overload: nothing yet."""
    fresh = Overload()
    monkeypatch.setattr(dispatching, "_overload", fresh)
    return fresh


def ask(fetches: int) -> None:
    """Ask for this many pages at SITES sites, each of which would get sixty slots."""
    for number in range(SITES):
        site_settings.set_rate(f"site-{number}.example", "20/s")
    request_fetches([f"https://site-{number % SITES}.example/{number}" for number in range(fetches)])


def miss(fetches: int) -> None:
    """Let the slots of this many reserved fetches pass before a fetcher takes them, and no other slots."""
    Fetch.objects.filter(state=FetchState.RESERVED).update(lease_until=Now() + timedelta(hours=1))
    missed = Fetch.objects.filter(state=FetchState.RESERVED).order_by("pk")[:fetches].values_list("pk", flat=True)
    Fetch.objects.filter(pk__in=list(missed)).update(lease_until=Now())


def sites_served() -> set[int]:
    """Return the sites that have reserved fetches."""
    return set(Fetch.objects.filter(state=FetchState.RESERVED).values_list("site_id", flat=True))


def give_back() -> None:
    """Pretend that fetchers have given back all that they had in hand, and that all sites are due."""
    Fetch.objects.filter(state=FetchState.RESERVED).update(state=FetchState.QUEUED, slot_id=None, lease_until=None)
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
    """Up to a hundred fetches whose message was lost are not a sign of an overload."""
    ask(900)
    dispatch()
    miss(100)
    request_fetches(["https://another.example/"])
    assert dispatch() == 1


def test_afterwards_the_sites_share_what_fetchers_can_do(overload: Overload) -> None:
    """The room is shared out to all sites that are due, however much each could have."""
    ask(1_800)
    overload.begin()
    assert dispatch() == LEAST_AHEAD
    reserved = Fetch.objects.filter(state=FetchState.RESERVED).values("site").annotate(fetches=Count("pk"))
    assert {row["fetches"] for row in reserved} == {LEAST_AHEAD // SITES}
    assert dispatch() == 0  # there is no room


def test_where_the_shares_are_too_small_the_sites_take_turns(
    overload: Overload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick goes on at the sites that the tick before did not reach."""
    monkeypatch.setattr(dispatching, "LEAST_AHEAD", 10 * FEWEST)
    ask(1_800)
    overload.begin()
    served: list[set[int]] = []
    for _tick in range(SITES // 10):
        assert dispatch() == 10 * FEWEST
        served.append(sites_served())
        give_back()
    assert sum(map(len, served)) == len(set().union(*served)) == SITES


def test_an_overload_is_forgotten(overload: Overload, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again after a while whether fetchers can do all that is due."""
    ask(900)
    monkeypatch.setattr(dispatching, "OVERLOAD_LASTS", -1.0)
    overload.begin()
    assert dispatch() == 900


@pytest.mark.parametrize(
    ("late", "used_per_s", "are_behind"),
    [(0, 0.0, False), (100, 0.0, False), (101, 0.0, True), (101, 203.0, False), (1_000, 1_000.0, True)],
)
def test_what_is_late_is_compared_with_what_fetchers_do(
    late: int, used_per_s: float, are_behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one of many fetchers is killed, that is not an overload."""
    monkeypatch.setattr(dispatching, "used_per_s", lambda: used_per_s)
    assert InHand(late=late, reserved=2_000).are_behind(messages=0) is are_behind


def test_what_there_is_room_for_follows_what_fetchers_do(overload: Overload, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a little more than that, less what they have in hand; there is no limit without an overload."""
    monkeypatch.setattr(dispatching, "used_per_s", lambda: 1_000.0)
    assert overload.room(500, 3.0) == ANY_NUMBER
    overload.begin()
    assert overload.room(500, 3.0) == round(GROWTH * 3_000) - 500
    monkeypatch.setattr(dispatching, "used_per_s", lambda: 1.0)
    assert overload.room(10, 3.0) == LEAST_AHEAD - 10


def test_what_fetchers_do_is_what_they_send() -> None:
    """Each request counts, whatever becomes of its fetch; slots that were cancelled, or used long ago, do not."""
    ask(900)
    dispatch()
    used = Slot.objects.order_by("pk").values_list("pk", flat=True)
    Slot.objects.filter(pk__in=list(used[:30])).update(finished_at=Now())
    Slot.objects.filter(pk__in=list(used[30:60])).update(finished_at=Now() - timedelta(seconds=3))
    Fetch.objects.filter(state=FetchState.RESERVED).update(
        state=FetchState.CANCELLED, finished_at=Now(), slot_id=None, lease_until=None
    )
    assert dispatching.used_per_s() == 15.0


def test_sites_with_few_fetches_fill_the_room_together(overload: Overload) -> None:
    """There is one page at each of a thousand sites: what each could have does not keep the others out."""
    request_fetches([f"https://site-{number}.example/" for number in range(1_000)])
    Site.objects.update(burst=100)
    overload.begin()
    assert LEAST_AHEAD * 0.7 < dispatch() <= LEAST_AHEAD


def test_lost_messages_of_a_patient_site_keep_nobody_waiting(overload: Overload) -> None:
    """A start may be a day late there: a lost fetch is queued again a day later, and is not in hand meanwhile."""
    site_settings.set_rate("patient.example", "1000/s", grace=timedelta(days=1))
    request_fetches([f"https://patient.example/{number}" for number in range(500)])
    assert dispatch() == 500
    overload.begin()
    request_fetches(["https://another.example/"])
    assert dispatch() == 1
