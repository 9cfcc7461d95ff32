"""An origin that our settings forbid: its robots.txt cannot be read, and waiting would not help."""

import socket
from dataclasses import replace

import pytest
from pytest_django import Settings

from tests.integration.conftest import Message
from tests.integration.fetching import fetched
from tests.integration.robots.conftest import ORIGIN, PAGE, ROBOTS, all_due, claimed, known, stored
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.jobs import Failure
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile, RobotsState
from weir.workers.fetches.robots import gate as robots_gate
from weir.workers.fetches.robots.files import RobotsFiles

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

REFUSAL = "site.example resolves to 10.0.0.1 is private; WEIR_FETCH_ALLOW_NETS can allow its network"


def test_a_name_that_resolves_to_a_forbidden_address_fails_in_its_first_attempt(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.WEIR_LOOKAHEAD = 3.0
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: answer)
    site_settings.set_rate("site.example", "100/s")
    fetch = fetched(request_fetch(PAGE), fetcher)
    assert (fetch.state, fetch.attempts, fetch.error) == (FetchState.FAILED, 1, REFUSAL)


def test_all_that_wait_for_it_fail_with_the_reason(files: RobotsFiles, messages: list[Message]) -> None:
    site_settings.set_rate("site.example", "100/s")
    known()
    request_fetches([PAGE, f"{PAGE}2"])
    jobs = claimed()
    RobotsFile.objects.all().delete()
    for event in robots_gate.admit(jobs, files)[1]:
        stored(event)
    all_due()
    [robots] = claimed()
    assert robots.url == ROBOTS
    messages.clear()
    stored(Failure(job=robots, error=REFUSAL, permanent=True))
    assert RobotsFile.objects.get().state == RobotsState.FORBIDDEN
    assert messages, "dispatch is woken"
    all_due()
    let_through, events = robots_gate.admit(claimed(), RobotsFiles())
    assert let_through == []
    for event in events:
        stored(event)
    ended = Fetch.objects.filter(is_robots=False)
    assert {(fetch.state, fetch.attempts, fetch.error) for fetch in ended} == {(FetchState.FAILED, 1, REFUSAL)}


def test_an_allowed_origin_whose_robots_txt_leads_elsewhere_is_only_unreachable(files: RobotsFiles) -> None:
    """Its fetches may be well tried later: the site may mend its redirect."""
    request_fetch(PAGE)
    [robots] = claimed()
    stored(Failure(job=replace(robots, redirects=1), error="10.0.0.1 is private", permanent=True))
    assert RobotsFile.objects.get(origin=ORIGIN).state == RobotsState.UNREACHABLE
    assert files.known({ORIGIN: robots.site_id})[ORIGIN].error == "10.0.0.1 is private"


def test_rules_that_still_count_outlive_a_refusal() -> None:
    """The fetches themselves meet it then."""
    request_fetch(PAGE)
    [robots] = claimed()
    known(rules="User-agent: *\nDisallow: /private\n")
    stored(Failure(job=robots, error=REFUSAL, permanent=True))
    assert RobotsFile.objects.get().state == RobotsState.RULES
