"""The admin: its pages render, and nothing can be edited."""

import pytest
from django.contrib.admin.utils import quote
from django.test import Client
from django.urls import reverse

from tests.integration.admin_pages import page
from tests.integration.robots.conftest import known
from weir.postgres import short_paginator
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState, RobotsState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITES = "admin:weir_ratelimit_site"
FETCHES = "admin:weir_fetches_fetch"
ROBOTS = "admin:weir_fetches_robotsfile"


def test_sites_are_listed_with_rate_and_state_and_found_by_name(admin_client: Client) -> None:
    """The list of sites shows each one's rate and what it is doing; a search narrows it."""
    site_settings.set_rate("busy.example", "2/m")
    slots.reserve("busy.example")
    site_settings.set_rate("quiet.example", "100/h")
    site_settings.pause("quiet.example")
    shown = page(admin_client, f"{SITES}_changelist")
    for text in ("2/m", "100/h", ">busy<", ">paused<"):
        assert text in shown
    assert "busy.example" not in page(admin_client, f"{SITES}_changelist", q="quiet")


def test_a_sites_page_shows_it_but_has_no_form(admin_client: Client) -> None:
    """One site can be looked at; a posted form is refused, because saving would set the site's clock back."""
    site_settings.set_rate("a.example", "1/s")
    site = Site.objects.get()
    assert "a.example" in page(admin_client, f"{SITES}_change", site.pk)
    for view in ("change", "delete"):
        assert admin_client.post(reverse(f"{SITES}_{view}", args=[site.pk]), {"post": "yes"}).status_code == 403
    assert admin_client.get(reverse(f"{SITES}_add")).status_code == 403
    assert Site.objects.get().next_start == site.next_start


def test_fetches_are_listed_and_filtered_by_state(admin_client: Client) -> None:
    """The list of fetches shows URL and reason; the filter leaves one state."""
    request_fetches(["http://a.example/queued", "ftp://a.example/refused"])
    shown = page(admin_client, f"{FETCHES}_changelist")
    assert "http://a.example/queued" in shown
    assert "only http and https are" in shown
    assert "?state__exact=failed" in shown
    assert "a.example/queued" not in page(admin_client, f"{FETCHES}_changelist", state__exact="failed")
    assert "refused" not in page(admin_client, f"{FETCHES}_changelist", q="http://a.example/")


def test_a_fetchs_page_shows_it_but_has_no_form(admin_client: Client) -> None:
    """One fetch can be looked at, but neither changed nor deleted by hand."""
    fetch = request_fetch("http://a.example/page")
    assert "http://a.example/page" in page(admin_client, f"{FETCHES}_change", fetch.pk)
    for view in ("change", "delete"):
        assert admin_client.post(reverse(f"{FETCHES}_{view}", args=[fetch.pk]), {"post": "yes"}).status_code == 403
    assert Fetch.objects.get().state == FetchState.QUEUED


def test_robots_files_are_listed_and_filtered_by_state(admin_client: Client) -> None:
    """What is known of each origin is shown, with the reason if it cannot be reached."""
    known("https://a.example", state=RobotsState.UNREACHABLE, error="the site answered 503")
    known("https://b.example", rules="User-agent: *\nDisallow: /private\n")
    shown = page(admin_client, f"{ROBOTS}_changelist")
    for text in ("https://a.example", "the site answered 503", "https://b.example"):
        assert text in shown
    assert "b.example" not in page(admin_client, f"{ROBOTS}_changelist", state__exact="unreachable")
    assert "a.example" not in page(admin_client, f"{ROBOTS}_changelist", q="https://b")


def test_a_robots_files_page_shows_it_but_has_no_form(admin_client: Client) -> None:
    """Its rules can be read there; what a site says is not changed by hand."""
    file = known("https://a.example", rules="User-agent: *\nDisallow: /private\n")
    assert "Disallow: /private" in page(admin_client, f"{ROBOTS}_change", quote(file.pk))
    for view in ("change", "delete"):
        url = reverse(f"{ROBOTS}_{view}", args=[quote(file.pk)])
        assert admin_client.post(url, {"post": "yes"}).status_code == 403
    assert admin_client.get(reverse(f"{ROBOTS}_add")).status_code == 403


def test_counting_stops_at_a_limit(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of fetches does not count millions of rows: its paginator ends at a limit."""
    monkeypatch.setattr(short_paginator, "MOST_COUNTED", 3)
    request_fetches([f"http://a.example/{number}" for number in range(5)])
    assert "3 fetches" in page(admin_client, f"{FETCHES}_changelist")
