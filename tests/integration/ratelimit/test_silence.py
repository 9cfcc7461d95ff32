"""A site is silent from a refusal of a start in a slot until it answers a start that was reserved later."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests.integration.plans import explain
from tests.integration.ratelimit.conftest import SITE, site_at, take
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, held_state

pytestmark = pytest.mark.django_db(transaction=True)


def refuse(error: str = "") -> int:
    """Refuse the start of a slot that is reserved now; returns the slot."""
    slot_id = take().slots[0].id
    site_settings.back_off(SITE, slot=slot_id, error=error)
    return slot_id


def is_over(ago: timedelta) -> None:
    """Let the back-off have ended so long ago."""
    Site.objects.update(backed_off_until=Now() - ago)


def state() -> str | None:
    found: str | None = Site.objects.annotate(state=held_state()).values_list("state", flat=True).get()
    return found


def test_a_silent_site_keeps_its_state_until_it_answers() -> None:
    """An answer to a start that was reserved before the refusal says nothing new."""
    site_at("100/s")
    early = take().slots[0].id
    for error, expected in (("", "backed off"), ("no connection", "unreachable")):
        slot_id = refuse(error)
        Site.objects.update(has_backlog=True)
        is_over(timedelta(hours=1))
        slots.note_answers([early, slot_id])
        assert state() == expected
        slots.note_answers([take().slots[0].id])
        assert state() is None, expected


def test_it_does_so_only_where_something_is_to_come_or_may_be_in_flight() -> None:
    """A site at which nothing has happened since an old refusal is idle."""
    site_at("100/s")
    refuse()
    is_over(timedelta(seconds=1))
    assert state() == "backed off"
    is_over(timedelta(minutes=2))
    assert state() is None
    Site.objects.update(due_at=Now() + timedelta(hours=1))
    assert state() == "backed off"


def test_what_is_not_about_a_fetch_leaves_no_silence() -> None:
    """Only fetches are answered: after a back-off by others, or a rest, nothing would end it. A person ends it."""
    site_at("100/s")
    site_settings.back_off(SITE, 5)
    site_settings.rest(SITE, 60, reason="its quota is used up")
    assert not Site.objects.get().is_silent
    refuse()
    assert Site.objects.get().is_silent
    site_settings.resume(SITE)
    assert not Site.objects.get().is_silent


@pytest.mark.parametrize("beneath_pause", [True, False])
def test_postgresql_puts_the_expression_in_the_place_of_the_function(*, beneath_pause: bool) -> None:
    """So a list of many sites calls no function for each."""
    query = str(Site.objects.annotate(state=held_state(beneath_pause=beneath_pause)).values("state").query)
    nodes = explain(query, options="VERBOSE, ")
    assert "resting" in str(nodes)
    assert "weir_ratelimit_held_state" not in str(nodes)
