"""The list of sites: in each order, with each filter, page after page."""

import math
import re
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count

from tests.integration.conftest import database_now
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.workers import cursors
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.reports import site_list
from weir.workers.fetches.reports.listed_site import SiteStatus
from weir.workers.fetches.reports.site_list import SiteFilters, SitePage, all_sites, backlogs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


@pytest.fixture
def many() -> None:
    """Create 500 sites: of ten, one is paused, one is backed off, one cannot be reached, four have a backlog."""
    with connection.cursor() as cursor:
        cursor.execute("""
            INSERT INTO weir_ratelimit_site
                (name, "interval", burst, has_backlog, covers_subdomains, paused_until, backed_off_until, backoff_level,
                backoff_error)
            SELECT
                CASE n % 2 WHEN 0 THEN 'api.' ELSE 'www.' END || n ||
                    CASE n % 3 WHEN 0 THEN '.example' ELSE '.test' END,
                '1 s', 1, n % 10 > 5, false, CASE n % 10 WHEN 1 THEN now() + interval '1 hour' END,
                CASE WHEN n % 10 IN (2, 3) THEN now() + interval '1 hour' END,
                CASE WHEN n % 10 IN (2, 3) THEN 1 + n % 7 ELSE 0 END, CASE n % 10 WHEN 3 THEN 'refused' ELSE '' END
            FROM generate_series(1, 500) AS n
        """)
        cursor.execute("""
            INSERT INTO weir_fetches_fetch (url, hop_url, site_id, state, priority, max_attempts)
            SELECT 'http://x.example/', '', id, 'queued', 0, 5
            FROM weir_ratelimit_site CROSS JOIN LATERAL generate_series(1, id % 5 + 1)
            WHERE has_backlog
        """)


def pages(filters: SiteFilters) -> list[SitePage]:
    """Return all pages of a list."""
    counted = backlogs()
    found = [site_list.site_list(filters, counted=counted)]
    while found[-1].next:
        found.append(site_list.site_list(filters, found[-1].next, counted=counted))
    return found


def names(found: list[SitePage]) -> list[str]:
    return [site.row.name for page in found for site in page.sites]


def the(name: str) -> SiteStatus:
    """Return what the list says of one site."""
    [site] = [site for site in all_sites(SiteFilters(), None, counted=backlogs()) if site.row.name == name]
    return site


@pytest.mark.usefixtures("many")
def test_each_order_has_each_site_once_page_after_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of refusals has those that refuse; also where a page ends before it is full."""
    queued, sites = backlogs().queued, list(Site.objects.all())
    expected = {
        "name": sorted(site.name for site in sites),
        "backlog": [
            site.name
            for site in sorted(
                sites,
                key=lambda site: (-queued.get(site.pk, 0), site.pk if site.pk in queued else 0, site.name),
            )
        ],
        "refusals": [
            site.name for site in sorted(sites, key=lambda site: (-site.backoff_level, site.name)) if site.backoff_level
        ],
    }
    for sort, look, piece in product(site_list.SORTS, (20_000, 45), (1_000, 7)):
        monkeypatch.setattr(site_list, "LOOKED_AT", look)
        monkeypatch.setattr(site_list, "PIECE", piece)
        found = pages(SiteFilters(sort=sort))
        assert names(found) == expected[sort], (sort, look, piece)
        are_full = all(len(page.sites) == site_list.ROWS or page.looked_at == look for page in found[:-1])
        assert are_full, (sort, look, piece)


@pytest.mark.usefixtures("many")
def test_the_filters_find_what_is_meant() -> None:
    """How names begin or end, the state, and whether fetches wait."""
    sites = list(all_sites(SiteFilters(), None, counted=backlogs()))
    searches, states = ("", "api.1", ".example", "API.", ".nowhere"), ("", *site_list.STATES)
    for search, state, sort, waits in product(searches, states, ("name", "backlog"), (False, True)):
        text = search.lower()
        meant = {
            site.row.name
            for site in sites
            if state in {"", site.state}
            and (site.backlog or not waits)
            and (site.row.name.endswith(text) if text.startswith(".") else site.row.name.startswith(text))
        }
        found = names(pages(SiteFilters(search=search, state=state, sort=sort, has_backlog=waits)))
        assert (len(found), set(found)) == (len(meant), meant), (search, state, sort, waits)
        assert found or search == ".nowhere" or state, (search, sort, waits)


def test_what_is_said_of_a_site() -> None:
    """Its backlog, when that clears, how much of its rate it used in the last minute, and its state."""
    site_settings.set_rate("a.example", "1/10s")
    assert the("a.example").state == "idle"
    request_fetches([f"http://a.example/{n}" for n in range(5)])
    seen = the("a.example")
    assert (seen.state, seen.backlog, round(seen.clears_in_s, 1)) == ("busy", 5, 50.5)
    site_settings.pause("a.example")
    assert (the("a.example").state, the("a.example").clears_in_s) == ("paused", math.inf)
    site_settings.pause("a.example", timedelta(minutes=5))
    assert the("a.example").clears_in_s > 345
    site_settings.resume("a.example")
    site_settings.back_off("a.example", 60)
    assert (the("a.example").state, the("a.example").row.backoff_level) == ("backed off", 1)
    site_settings.resume("a.example")
    site_settings.back_off("a.example", error="no connection")
    assert the("a.example").state == "unreachable"


def test_the_seen_rate_counts_the_starts_that_were_used_in_the_last_minute() -> None:
    """Not those that were given back, are to come, or lie further back."""
    site_settings.set_rate("a.example", "1/s")
    for ago_s, is_used in ((70, True), (30, True), (20, True), (10, False), (-10, True)):
        [slot] = slots.reserve("a.example", max_wait=100).slots
        start = database_now() - timedelta(seconds=ago_s)
        Slot.objects.filter(pk=slot.id).update(start_time=start, finished_at=start if is_used else None)
    assert the("a.example").started == 2
    assert the("a.example").share == pytest.approx(2 / 60)
    assert the("a.example").seen_per_s == pytest.approx(2 / 60)


def test_a_backlog_that_was_counted_earlier_may_name_sites_that_are_gone() -> None:
    """And lacks those that have come since: the list has those that are there."""
    for number in range(3):
        request_fetch(f"http://{number}.example/")
    counted = backlogs()
    Site.objects.filter(name="0.example")._raw_delete("default")
    request_fetch("http://new.example/")
    page = site_list.site_list(SiteFilters(sort="backlog"), counted=counted)
    assert names([page]) == ["1.example", "2.example", "new.example"]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("piece", [1, 2, 3, 5, 1_000])
def test_a_queue_is_counted_piece_by_piece(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a site has more than a piece. What is beyond the bound is not counted, and that is said."""
    monkeypatch.setattr(site_list, "QUEUE_PIECE", piece)
    everything = backlogs()
    assert everything.queued == dict(
        Fetch.objects.values_list("site").annotate(fetches=Count("pk")).order_by("site").values_list("site", "fetches")
    )
    assert everything.is_whole
    monkeypatch.setattr(site_list, "MOST_QUEUED", 7)
    if piece < 7:
        assert not backlogs().is_whole
        assert backlogs().queued.items() < everything.queued.items()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"state": "pausd"}, "There is no state 'pausd'. Did you mean paused?"),
        ({"sort": "size"}, "There is no sort 'size'."),
        ({"search": "\0"}, "search must be text of at most 300 characters."),
        ({"search": "x" * 301}, "search must be text of at most 300 characters."),
    ],
    ids=str,
)
def test_a_wrong_filter_is_refused_in_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        SiteFilters(**wrong)


@pytest.mark.parametrize("cursor", ["x", "!!", "W10", "WyJpZHMiLCIiLDEsMSwxXQ"])
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(cursors.BadCursor):
        site_list.site_list(SiteFilters(), cursor, counted=backlogs())
