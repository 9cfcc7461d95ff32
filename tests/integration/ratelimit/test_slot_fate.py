"""weir_ratelimit_slot_fate says what became of a slot, from its row and the last recall of its site."""

from datetime import datetime, timedelta

import pytest
from django.db import connection

from tests.integration.conftest import database_now
from tests.integration.plans import explain
from tests.integration.ratelimit.conftest import SITE
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.pacing import CONFIRMED_FOR_S, HAND_OVER_MARGIN_S

pytestmark = pytest.mark.django_db(transaction=True)

# All times are seconds from the slot's start. Its run ends at 1, and an outcome must have come by 10.
ENDS, REPORTED_BY = 1.0, 10.0
ROWS: dict[str, tuple[str, dict[str, float]]] = {
    # what is noted in the slot; `recalled`: when a recall made it void; `now`: the time that is asked about
    "its time has not come": ("reserved", {"now": -1}),
    "it begins": ("reserved", {"now": 0}),
    "its outcome may still come": ("reserved", {"now": REPORTED_BY}),
    "no outcome came": ("unreported", {"now": REPORTED_BY + 0.001}),
    "it was used": ("used", {"finished": 0.5, "now": 2}),
    "it was used, and its outcome came late": ("used", {"finished": 9, "now": 20}),
    "given back before its start": ("given back", {"released": -2, "now": -1}),
    "given back in its run": ("given back", {"released": 0.9, "now": 20}),
    "given back just in time": ("given back", {"released": ENDS - HAND_OVER_MARGIN_S, "now": 20}),
    "given back as its run ended": ("missed", {"released": ENDS - HAND_OVER_MARGIN_S + 0.001, "now": 20}),
    "given back after its run": ("missed", {"released": 5, "now": 20}),
    "recalled, and not said yet": ("void", {"recalled": -1, "now": -0.9}),
    "recalled, and given back": ("void", {"recalled": -1, "released": -0.8, "now": 20}),
    "recalled, and given back by sweep": ("void", {"recalled": -1, "released": 8, "now": 20}),
    "recalled in its run, and given back": ("void", {"recalled": 0.5, "released": 0.6, "now": 20}),
    "given back before the recall": ("given back", {"released": -2, "recalled": -1, "now": 20}),
    "missed before the recall": ("missed", {"released": 1.5, "recalled": 1.6, "now": 20}),
    "recalled after its run": ("missed", {"recalled": 1.5, "released": 1.6, "now": 20}),
    "used before the recall": ("used", {"finished": 0.4, "recalled": 0.5, "now": 20}),
    "used though it was recalled a moment before": ("used", {"recalled": -0.4, "finished": 0.3, "now": 20}),
    "recalled a moment before it may have been used": ("void", {"recalled": -CONFIRMED_FOR_S - 0.001, "now": 2}),
    "may have been used a moment after the recall": ("reserved", {"recalled": -CONFIRMED_FOR_S, "now": 2}),
    "nobody said whether it was used after the recall": ("unreported", {"recalled": -CONFIRMED_FOR_S, "now": 20}),
    "begun before the recall": ("reserved", {"recalled": 0.5, "now": 2}),
    "begun before the recall, and its holder was lost": ("unreported", {"recalled": 0.5, "now": 20}),
    "passed on": ("reserved", {"passed on": -2, "now": -1}),
    "passed on, and used by its successor": ("used", {"passed on": -2, "finished": 0.5, "now": 20}),
    "passed on to nobody": ("given back", {"passed on": -2, "now": 20}),
}


def fate_of(slot: Slot, reported_by: datetime, now: datetime) -> str:
    """Return what the function says, with the site's row as it is."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT weir_ratelimit_slot_fate(slot, site.recalled_slot, site.recalled_at, %s, %s)
            FROM weir_ratelimit_slot AS slot LEFT JOIN weir_ratelimit_site AS site ON site.id = slot.site_id
            WHERE slot.id = %s
            """,
            [reported_by, now, slot.pk],
        )
        fate: str = cursor.fetchone()[0]
        return fate


@pytest.mark.parametrize("what", ROWS)
def test_each_row_has_its_fate(what: str) -> None:
    """Each combination of what is recorded has one fate."""
    expected, times = ROWS[what]
    site_settings.set_rate(SITE, "1/s")
    site = Site.objects.get(name=SITE)
    start = database_now()
    at = {name: start + timedelta(seconds=seconds) for name, seconds in times.items()}
    slot = Slot.objects.create(
        site=site,
        start_time=start,
        use_until=start + timedelta(seconds=ENDS),
        finished_at=at.get("finished"),
        released_at=at.get("released"),
        passed_on_at=at.get("passed on"),
    )
    if "recalled" in at:
        Site.objects.update(recalled_slot=slot.pk, recalled_at=at["recalled"])

    assert fate_of(slot, start + timedelta(seconds=REPORTED_BY), at["now"]) == expected


def test_a_recall_says_nothing_of_later_slots() -> None:
    """A slot that was reserved after the recall stands."""
    site_settings.set_rate(SITE, "1/s")
    site_settings.pause(SITE)
    start = database_now()
    later = start + timedelta(seconds=9)
    slot = Slot.objects.create(site=Site.objects.get(name=SITE), start_time=later, use_until=later, released_at=start)

    assert fate_of(slot, start + timedelta(seconds=20), start) == "given back"


def test_a_slot_of_a_deleted_site_has_a_fate() -> None:
    """Its last recall is not known any more."""
    start = database_now()
    slot = Slot.objects.create(site_id=17, start_time=start, use_until=start)

    assert fate_of(slot, start, start + timedelta(seconds=1)) == "unreported"


def test_the_function_is_inlined() -> None:
    """Counting by fate makes no function call for each of thousands of slots."""
    nodes = explain(
        "SELECT weir_ratelimit_slot_fate(slot, 1, now(), now(), now()), count(*) "
        "FROM weir_ratelimit_slot AS slot GROUP BY 1",
        options="VERBOSE, ",
    )
    assert "weir_ratelimit_slot_fate" not in str(nodes)
    assert "passed_on_at" in str(nodes)
