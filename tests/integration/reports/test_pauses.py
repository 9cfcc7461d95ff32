"""Who paused a site, and why: wherever the pause shows, as far as the audit trail has it."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models.functions import Now

from tests.integration.plans import rows_read
from weir.postgres import planner
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.audit.acting import Actor
from weir.workers.audit.models import Door, Entry
from weir.workers.fetches.actions import sites
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.reports.holds import PAUSE, RESUME, SitePause, pauses
from weir.workers.fetches.reports.why import why

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

ADA = Actor(name="ada", door=Door.PAGE, may=lambda _: True)
SITE = "a.example"
REASON = "Its owner called."


@pytest.fixture
def fetch() -> int:
    """Create a fetch, of a site that is not paused."""
    site_settings.set_rate(SITE, "1/s")
    return request_fetch(f"http://{SITE}/").pk


def found() -> SitePause | None:
    """Return who paused the site."""
    return pauses(dict(Site.objects.values_list("name", "paused_until"))).get(SITE)


def printed(*arguments: str) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


@pytest.mark.parametrize("duration", [None, timedelta(minutes=5, microseconds=999)])
def test_it_shows_wherever_the_pause_shows(fetch: int, duration: timedelta | None) -> None:
    """In commands, and in why a fetch waits. For pages: tests/integration/ops/test_site_pages.py."""
    sites.pause(ADA, SITE, duration, why=REASON)
    assert found() == SitePause("ada", REASON)
    assert f"by ada ({REASON})" in printed("sites", "show", SITE)
    assert "by ada" in printed("sites", "list")
    [said] = [blocker.text for blocker in why(fetch).blockers if blocker.kind == "paused"]
    assert said.startswith(f"The site {SITE} is paused by ada (Its owner called)")
    [listed] = json.loads(printed("sites", "list", "--json"))["sites"]
    for data in (listed, json.loads(printed("sites", "show", SITE, "--json"))):
        assert (data["paused_by"], data["paused_why"]) == ("ada", REASON)


def test_a_pause_of_somebody_else_is_not_put_down_to_whom_the_trail_names(fetch: int) -> None:
    """Code pauses without an entry: the newest entry is then about another pause, or about the end of one."""
    sites.pause(ADA, SITE, timedelta(minutes=5), why=REASON)
    site_settings.pause(SITE, timedelta(minutes=6))
    assert found() is None
    assert f"The site {SITE} is paused." in [blocker.text for blocker in why(fetch).blockers]
    sites.pause(ADA, SITE)
    assert found() == SitePause("ada", "")
    sites.set_rate(ADA, SITE, "2/s", why="not about the pause")
    assert found() == SitePause("ada", "")
    sites.resume(ADA, SITE)
    site_settings.pause(SITE)
    assert found() is None


@pytest.mark.parametrize("analyze", [True, False])
def test_however_long_the_trail_is_a_little_of_it_is_read(*, analyze: bool) -> None:
    """Of each site that is paused, at most a hundred entries; whatever the statistics say."""
    site_settings.set_rate(SITE, "1/s")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO weir_audit_entry (at, actor, door, action, target, why, correlation_id)"
            " SELECT now(), 'ada', 'page', 'sites.set', CASE WHEN n %% 10 = 0 THEN 'b.example' ELSE %s END, '', ''"
            " FROM generate_series(1, 3000) AS n",
            [SITE],
        )
        if analyze:
            cursor.execute("ANALYZE weir_audit_entry")
    for name in ("nobody.example", SITE, "b.example"):
        wanted: dict[str, object] = {"targets": [name], "actions": [PAUSE, RESUME], "most": 100}
        with transaction.atomic():
            planner.in_index_order()
            assert rows_read("weir.workers.audit", "newest", wanted, "weir_audit_entry") <= 200, name
    assert Entry.objects.filter(at__lte=Now()).count() == 3000
