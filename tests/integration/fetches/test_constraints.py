"""The database refuses impossible rows, whatever code writes them: each constraint with a row that breaks it."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.apps import apps
from django.db import IntegrityError, transaction
from django.db.models import CheckConstraint

from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.models import AccessToken, Fetch, FetchState, RobotsFile, RobotsState

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
HELD = {"slot_id": 1, "lease_until": NOW}
ENDED = {"finished_at": NOW, "error": "because"}

SITES: list[tuple[str, dict[str, Any]]] = [
    ("weir_site_interval_positive", {"interval": timedelta(0)}),
    ("weir_site_interval_positive", {"interval": timedelta(seconds=-1)}),
    ("weir_site_burst_positive", {"burst": 0}),
    ("weir_site_grace_not_too_short", {"grace": timedelta(milliseconds=14)}),
    ("weir_site_grace_not_too_short", {"grace": timedelta(0)}),
    ("weir_site_concurrency_positive", {"max_concurrency": 0}),
    ("weir_site_refusing_usable", {"refusing": []}),
    ("weir_site_refusing_usable", {"refusing": [403, 429]}),
    ("weir_site_refusing_usable", {"refusing": [399, 429, 503]}),
    ("weir_site_refusing_usable", {"refusing": [429, 503, 1000]}),
    ("weir_site_refusing_usable", {"refusing": [*range(429, 450), 503]}),
    ("weir_site_with_backlog_has_no_due_at", {"has_backlog": True, "due_at": NOW}),
]
SLOTS: list[tuple[str, dict[str, Any]]] = [
    ("weir_slot_finished_or_released", {"finished_at": NOW, "released_at": NOW}),
]
FETCHES: list[tuple[str, dict[str, Any]]] = [
    ("weir_fetch_state_known", {"state": "lost"}),
    ("weir_fetch_state_known", {"state": ""}),
    ("weir_fetch_final_has_finished_at", {"state": FetchState.DONE, "status_code": 200}),
    ("weir_fetch_final_has_finished_at", {"state": FetchState.FAILED, "error": "because"}),
    ("weir_fetch_final_has_finished_at", {"state": FetchState.CANCELLED}),
    ("weir_fetch_final_has_finished_at", {"state": FetchState.QUEUED, "finished_at": NOW}),
    ("weir_fetch_final_has_finished_at", {"state": FetchState.RUNNING, "finished_at": NOW, **HELD}),
    ("weir_fetch_held_has_slot_and_lease", {"state": FetchState.RESERVED, "slot_id": 1}),
    ("weir_fetch_held_has_slot_and_lease", {"state": FetchState.RUNNING, "lease_until": NOW}),
    ("weir_fetch_without_site_is_failed", {"state": FetchState.QUEUED, "site": None}),
    ("weir_fetch_without_site_is_failed", {"state": FetchState.DONE, "status_code": 200, "site": None, **ENDED}),
    ("weir_fetch_done_has_status", {"state": FetchState.DONE, **ENDED}),
    ("weir_fetch_failed_says_why", {"state": FetchState.FAILED, "finished_at": NOW}),
    ("weir_fetch_max_attempts_positive", {"max_attempts": 0}),
    ("weir_fetch_method_known", {"method": "TRACE"}),
    ("weir_fetch_max_redirects_bounded", {"max_redirects": 21}),
]
TOKENS: list[tuple[str, dict[str, Any]]] = [
    ("weir_access_token_has_times", {"sealed": None}),
    ("weir_access_token_has_times", {"expires_at": None}),
    ("weir_access_token_or_error", {"sealed": None, "obtained_at": None, "expires_at": None}),
]
ROBOTS: list[tuple[str, dict[str, Any]]] = [
    ("weir_robots_state_known", {"state": "perhaps"}),
    ("weir_robots_unreachable_says_why", {"state": RobotsState.UNREACHABLE}),
    ("weir_robots_unreachable_says_why", {"state": RobotsState.FORBIDDEN}),
    ("weir_robots_unreachable_says_why", {"error": "because"}),
    ("weir_robots_delay_positive", {"crawl_delay": timedelta(0)}),
    ("weir_robots_refreshed_in_time", {"refresh_at": NOW + timedelta(seconds=1)}),
]


@pytest.fixture
def site() -> Site:
    """Return a site."""
    return Site.objects.create(name="site.example", interval=timedelta(seconds=1))


def refused_by(write: Any) -> str:
    """Return the name of the constraint that refuses the write."""
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        write()
    cause = refusal.value.__cause__
    assert isinstance(cause, psycopg.IntegrityError)
    return cause.diag.constraint_name or ""


@pytest.mark.parametrize(("constraint", "fields"), SITES)
def test_an_impossible_site_is_refused(constraint: str, fields: dict[str, Any], site: Site) -> None:
    """No site without an interval, a burst and a usable grace, neither new nor by an update."""
    whole = {"name": "other.example", "interval": timedelta(seconds=1), **fields}
    assert refused_by(lambda: Site.objects.create(**whole)) == constraint
    assert refused_by(lambda: Site.objects.filter(pk=site.pk).update(**fields)) == constraint


def test_a_site_has_one_row(site: Site) -> None:
    """Two rows of one name would be two clocks of one rate."""
    assert "name" in refused_by(lambda: Site.objects.create(name=site.name, interval=site.interval))


@pytest.mark.parametrize(("constraint", "fields"), SLOTS)
def test_an_impossible_slot_is_refused(constraint: str, fields: dict[str, Any], site: Site) -> None:
    """A slot was used or given back, never both."""
    whole = {"site": site, "start_time": NOW, "use_until": NOW}
    slot = Slot.objects.create(**whole)
    assert refused_by(lambda: Slot.objects.create(**whole, **fields)) == constraint
    assert refused_by(lambda: Slot.objects.filter(pk=slot.pk).update(**fields)) == constraint


@pytest.mark.parametrize(("constraint", "fields"), FETCHES)
def test_an_impossible_fetch_is_refused(constraint: str, fields: dict[str, Any], site: Site) -> None:
    """Each state has what belongs to it: a site, a slot and a lease, an end time, a status or a reason."""
    whole = {"url": "https://site.example/", "site": site}
    fetch = Fetch.objects.create(**whole)
    assert refused_by(lambda: Fetch.objects.create(**{**whole, **fields})) == constraint
    assert refused_by(lambda: Fetch.objects.filter(pk=fetch.pk).update(**fields)) == constraint


def test_a_dedupe_key_is_unfinished_once(site: Site) -> None:
    """Two unfinished fetches never share a key; one that has ended, or has no key, does not hinder others."""
    whole = {"url": "https://site.example/", "site": site}
    key = {"dedupe_key": UUID(int=1)}
    for fields in (
        {},
        {},
        {"state": FetchState.FAILED, **ENDED, **key},
        {"state": FetchState.FAILED, **ENDED, **key},
        key,
    ):
        Fetch.objects.create(**{**whole, **fields})
    for state in ({}, {"state": FetchState.RESERVED, **HELD}, {"state": FetchState.RUNNING, **HELD}):
        assert refused_by(partial(Fetch.objects.create, **{**whole, **key, **state})) == "weir_fetch_unfinished_once"


@pytest.mark.parametrize(("constraint", "fields"), ROBOTS)
def test_an_impossible_robots_file_is_refused(constraint: str, fields: dict[str, Any], site: Site) -> None:
    """Only a file that cannot be reached has a reason; a delay is longer than 0."""
    whole = {"origin": "https://b.example", "site": site, "state": "rules", "refresh_at": NOW, "expires_at": NOW}
    file = RobotsFile.objects.create(**{**whole, "origin": "https://a.example"})
    assert refused_by(lambda: RobotsFile.objects.create(**{**whole, **fields})) == constraint
    assert refused_by(lambda: RobotsFile.objects.filter(pk=file.pk).update(**fields)) == constraint


@pytest.mark.parametrize(("constraint", "fields"), TOKENS)
def test_an_impossible_access_token_is_refused(constraint: str, fields: dict[str, Any]) -> None:
    """There is a token with its times, or a reason why there is none."""
    whole = {"client": "A", "sealed": b"x", "obtained_at": NOW, "expires_at": NOW, "refresh_at": NOW}
    token = AccessToken.objects.create(key=UUID(int=1), **whole)
    assert refused_by(lambda: AccessToken.objects.create(key=UUID(int=2), **{**whole, **fields})) == constraint
    assert refused_by(lambda: AccessToken.objects.filter(pk=token.pk).update(**fields)) == constraint


def test_a_robots_txt_is_asked_for_once_at_a_time(site: Site) -> None:
    """While one is queued, reserved or running there is no second; afterwards, and as a user's own, there is."""
    whole: dict[str, Any] = {"url": "https://site.example/robots.txt", "site": site}
    for held in (
        {"state": FetchState.QUEUED},
        {"state": FetchState.RESERVED, **HELD},
        {"state": FetchState.RUNNING, **HELD},
    ):
        active = Fetch.objects.create(**whole, **held, is_robots=True)
        assert refused_by(lambda: Fetch.objects.create(**whole, is_robots=True)) == "weir_fetch_robots_once"
        Fetch.objects.create(**whole)
        Fetch.objects.filter(pk=active.pk).update(state=FetchState.FAILED, **ENDED)


@pytest.mark.parametrize(
    "fields",
    [
        {"state": FetchState.QUEUED},
        {"state": FetchState.RESERVED, **HELD},
        {"state": FetchState.RUNNING, **HELD},
        {"state": FetchState.DONE, "finished_at": NOW, "status_code": 404},
        {"state": FetchState.FAILED, **ENDED},
        {"state": FetchState.FAILED, "site": None, **ENDED},
        {"state": FetchState.CANCELLED, "finished_at": NOW},
    ],
)
def test_every_state_has_a_row_that_is_possible(fields: dict[str, Any], site: Site) -> None:
    """The constraints together leave room for what really happens."""
    Fetch.objects.create(**{"url": "https://site.example/", "site": site, **fields})


def test_every_constraint_has_a_row_here_that_breaks_it() -> None:
    """A constraint that nothing breaks may not be there at all."""
    declared = {
        constraint.name
        for label in ("weir_ratelimit", "weir_fetches")
        for model in apps.get_app_config(label).get_models()
        for constraint in model._meta.constraints
        if isinstance(constraint, CheckConstraint)
    }
    assert {constraint for constraint, _ in SITES + SLOTS + FETCHES + TOKENS + ROBOTS} == declared
