"""The operators' admin: its pages render, its actions act, and nothing can be edited by accident."""

import pytest
from django.contrib.admin.utils import quote
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.robots.conftest import known
from weir.postgres import short_paginator
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site
from weir.workers.fetches.admin import fetches as fetches_admin
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, RobotsFile, RobotsState, State

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITES = "admin:weir_ratelimit_site"
FETCHES = "admin:weir_fetches_fetch"
ROBOTS = "admin:weir_fetches_robotsfile"


def page(client: Client, name: str, *arguments: object, **query: str) -> str:
    """Return a page that must answer 200."""
    response = client.get(reverse(name, args=arguments), query)
    assert response.status_code == 200
    return response.content.decode()


def act(client: Client, model: str, action: str, *ids: object) -> str:
    """Return the page that an action on some rows leads to."""
    url = reverse(f"{model}_changelist")
    return client.post(url, {"action": action, "_selected_action": ids}, follow=True).content.decode()


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


def test_sites_are_paused_and_resumed_by_actions(admin_client: Client) -> None:
    """The actions pause and resume the chosen sites, and no others."""
    for name in ("a.example", "b.example"):
        site_settings.set_rate(name, "1/s")
    chosen = Site.objects.get(name="a.example")
    assert "1 site paused." in act(admin_client, SITES, "pause", chosen.pk)
    assert slots.estimate("a.example") > 1e9
    assert slots.estimate("b.example") <= 0
    act(admin_client, SITES, "resume", chosen.pk)
    assert slots.estimate("a.example") <= 0


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
    assert Fetch.objects.get().state == State.QUEUED


def test_fetches_are_cancelled_by_an_action_unless_it_is_too_late(admin_client: Client) -> None:
    """Chosen fetches that wait are cancelled; those that ended stay as they are."""
    waiting, ended, other = request_fetches(["http://a.example/1", "ftp://refused", "http://a.example/3"])
    assert "1 fetch cancelled." in act(admin_client, FETCHES, "cancel", waiting.pk, ended.pk)
    states = dict(Fetch.objects.values_list("pk", "state"))
    assert states == {waiting.pk: State.CANCELLED, ended.pk: State.FAILED, other.pk: State.QUEUED}


def test_failed_fetches_are_retried_by_an_action(admin_client: Client) -> None:
    """Chosen fetches that failed wait again; what is no URL and what has not failed stays, and is said or not."""
    failed, refused, waiting, other = request_fetches(
        ["http://a.example/1", "ftp://refused", "http://a.example/2"] * 2
    )[:4]
    Fetch.objects.filter(pk__in=[failed.pk, other.pk]).update(state=State.FAILED, error="lost", finished_at=Now())
    shown = act(admin_client, FETCHES, "retry", failed.pk, refused.pk, waiting.pk)
    assert "1 fetch queued again." in shown
    assert "1 stays failed: no URL that Weir fetches." in shown
    states = dict(Fetch.objects.values_list("pk", "state"))
    assert [states[fetch.pk] for fetch in (failed, refused, waiting, other)] == ["queued", "failed", "queued", "failed"]


def test_the_action_retries_so_many_at_most(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A click has an end; what is left is said."""
    ids = [fetch.pk for fetch in request_fetches([f"http://a.example/{number}" for number in range(3)])]
    Fetch.objects.update(state=State.FAILED, error="lost", finished_at=Now())
    monkeypatch.setattr(fetches_admin, "MOST_RETRIED", 2)
    assert "At most 2 are retried at once" in act(admin_client, FETCHES, "retry", *ids)
    assert "1 fetch queued again." in (last := act(admin_client, FETCHES, "retry", *ids))
    assert "At most" not in last


def test_robots_files_are_listed_and_filtered_by_state(admin_client: Client) -> None:
    """What is known of each origin is shown, with the reason where it cannot be reached."""
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


def test_robots_files_are_asked_for_again_by_an_action(admin_client: Client, settings: Settings) -> None:
    """The chosen ones count no more, and are on their way; the others stay as they are."""
    settings.WEIR_OBEY_ROBOTS = True
    chosen, other = known("https://a.example"), known("https://b.example")
    assert "1 robots.txt file asked for again." in act(admin_client, ROBOTS, "ask_again", chosen.pk)
    assert list(RobotsFile.objects.filter(expires_at__gt=database_now())) == [other]
    assert [fetch.url for fetch in Fetch.objects.filter(is_robots=True)] == ["https://a.example/robots.txt"]


def test_counting_stops_at_a_limit(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of fetches does not count millions of rows: its paginator ends at a limit."""
    monkeypatch.setattr(short_paginator, "MOST_COUNTED", 3)
    request_fetches([f"http://a.example/{number}" for number in range(5)])
    assert "3 fetches" in page(admin_client, f"{FETCHES}_changelist")
