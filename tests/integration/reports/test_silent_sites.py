"""A site that has answered nothing since its last refusal: each report says so, between the back-offs, too."""

import json
import math
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from weir.ops.metrics.parts.sites import SITES_NOW
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.management import site_text
from weir.workers.fetches.management.forecast_text import UNKNOWN
from weir.workers.fetches.reports.forecast import forecast
from weir.workers.fetches.reports.holds import next_try
from weir.workers.fetches.reports.listed_site import SiteStatus
from weir.workers.fetches.reports.progress import FetchIds, progress
from weir.workers.fetches.reports.site_list import SiteFilters, all_sites, backlogs
from weir.workers.fetches.reports.site_status import site_now
from weir.workers.fetches.reports.timeline import timeline
from weir.workers.fetches.reports.why import why
from weir.workers.overview.overview import count

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITE = "a.example"
ERRORS = {"": "backed off", "no connection": "unreachable"}


@pytest.fixture(params=list(ERRORS), ids=list(ERRORS.values()))
def fetches(request: pytest.FixtureRequest) -> list[int]:
    """Create three fetches, at a site that refused a start, or could not be reached; the back-off is just over."""
    site_settings.set_rate(SITE, "1/s")
    ids = [fetch.pk for fetch in request_fetches([f"http://{SITE}/{number}" for number in range(3)])]
    [slot] = slots.reserve(SITE).slots
    site_settings.back_off(SITE, slot=slot.id, error=request.param)
    Site.objects.update(backed_off_until=Now() - timedelta(seconds=1), next_start=Now() + timedelta(hours=5.5))
    Site.objects.update(interval=timedelta(hours=10))
    return ids


def listed() -> SiteStatus:
    [site] = all_sites(SiteFilters(), None, counted=backlogs())
    return site


def printed(*arguments: str) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


def blocker_texts(fetch_id: int) -> dict[str, str]:
    return {blocker.kind: blocker.text for blocker in why(fetch_id).blockers}


def counted_states() -> list[str]:
    numbers = count()
    found = {"backed off": numbers.backed_off, "unreachable": numbers.unreachable}
    return [state for state, sites in found.items() if sites]


def states(fetches: list[int]) -> dict[str, object]:
    """Return what each reader says of the site."""
    ids = FetchIds()
    ids.add(fetches)
    [site] = progress(ids, most_sites=1).busiest
    return {
        "list": listed().state,
        "one site": site_now(SITE).state,
        "forecast": forecast(SITE).state,
        "fetch": site.state,
        "overview": " ".join(counted_states()) or "no",
        "metrics": SITES_NOW(names=[SITE], most=9)[0].is_held,
    }


def test_each_reader_has_the_state_until_the_site_answers(fetches: list[int]) -> None:
    """Its first answer makes it busy again, wherever it is shown."""
    state = ERRORS[Site.objects.get().backoff_error]
    named = dict.fromkeys(("list", "one site", "forecast", "fetch", "overview"), state)
    assert states(fetches) == {**named, "metrics": True}
    assert state in blocker_texts(fetches[2])
    answered_in = slots.reserve(SITE, max_wait=99_999).slots[0].id
    slots.note_answers([answered_in])
    runs = {"list": "busy", "one site": "running", "forecast": "running", "fetch": "busy", "overview": "no"}
    assert states(fetches) == {**runs, "metrics": False}
    assert [*blocker_texts(fetches[2])][-1] == "rate"
    assert state not in blocker_texts(fetches[2])


def test_nobody_forecasts_what_nobody_knows(fetches: list[int]) -> None:
    """But when it is tried next is known."""
    told = forecast(SITE)
    assert (told.is_silent, told.starts_in_s, told.clears_in_s, told.held_for_s) == (True, math.inf, math.inf, 0.0)
    assert (listed().clears_in_s, printed("sites", "forecast", SITE).count(UNKNOWN)) == (math.inf, 1)
    assert json.loads(printed("sites", "forecast", SITE, "--json"))["clears_in_s"] is None
    for next_start in [start.start_in_s for start in timeline(site_now(SITE).site.pk).next_starts]:
        assert next_start == math.inf or 19_000 < next_start < 20_000
    assert "its turn is not known while the site does not answer" in blocker_texts(fetches[2])["rate"]
    assert 19_000 < listed().held_for_s <= 19_800
    assert site_now(SITE).next_try in {blocker.until for blocker in why(fetches[2]).blockers}
    assert f"{site_now(SITE).state}, next try in 5h" in site_text.as_table([listed()])
    assert f"{site_now(SITE).state}, next try at 20" in printed("sites", "show", SITE)
    Site.objects.update(next_start=Now() + timedelta(hours=15))
    assert "next try now" in printed("sites", "show", SITE), "a slot is reserved"


def test_the_next_try_comes_when_the_back_off_the_clock_and_the_queue_allow_it() -> None:
    """A slot that is reserved behind the back-off has moved the clock, and does not put the try off."""
    site_settings.set_rate(SITE, "1/10s")
    site = Site.objects.get()
    assert next_try(site) is None
    over = site.backed_off_until = site.created_at
    second = timedelta(seconds=1)
    for clock, due_at, expected in (
        (over - second, None, over),
        (over + 3 * second, None, over + 3 * second),
        (over + 10 * second, None, over),
        (over + 3 * second, over + 7 * second, over + 7 * second),
    ):
        site.next_start, site.due_at = clock, due_at
        assert next_try(site) == expected, (clock, due_at)
