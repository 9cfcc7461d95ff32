"""Sites that have queued fetches, but none that is due: dispatch does not look at them until one is."""

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.integration.conftest import Message, database_now, dispatch_message, waiting_for_nobody
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches import backlog
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

URL = "https://site.example/"
HOUR = timedelta(hours=1)


def in_hours(hours: float) -> datetime:
    return database_now() + hours * HOUR


def pass_time(hours: float) -> None:
    """Make everything that becomes due do so earlier by these hours."""
    for fetch in Fetch.objects.filter(state=FetchState.QUEUED):
        Fetch.objects.filter(pk=fetch.pk).update(not_before=fetch.not_before - hours * HOUR)
    for site in Site.objects.filter(due_at__isnull=False):
        Site.objects.filter(pk=site.pk).update(due_at=(site.due_at or site.next_start) - hours * HOUR)


def test_a_site_with_only_future_work_is_inactive_until_the_first_is_due() -> None:
    """Whatever the priorities are: the best of the queue need not be the first that is due."""
    first = in_hours(2)
    for priority, not_before in ((9, in_hours(5)), (5, in_hours(4)), (0, first), (0, in_hours(3)), (-1, in_hours(6))):
        request_fetch(URL, priority=priority, not_before=not_before)
    site = Site.objects.get()
    assert (site.has_backlog, site.due_at) == (False, first)


def test_a_site_becomes_inactive_when_all_that_was_due_is_taken() -> None:
    later = in_hours(1)
    request_fetches([URL, f"{URL}2"])
    request_fetch(URL, not_before=later)
    assert dispatch() == 2
    site = Site.objects.get()
    assert (site.has_backlog, site.due_at) == (False, later)


def test_the_first_tick_after_that_time_dispatches_it() -> None:
    fetch = request_fetch(URL, not_before=in_hours(1))
    assert dispatch() == 0
    pass_time(0.9)
    assert dispatch() == 0
    pass_time(0.1)
    assert dispatch([]) == 0, "a message that names sites is none of the ticks"
    assert dispatch() == 1
    fetch.refresh_from_db()
    assert fetch.state == FetchState.RESERVED
    site = Site.objects.get()
    assert (site.has_backlog, site.due_at) == (False, None)


def test_what_is_due_sooner_is_noted_and_wakes_dispatch_if_it_is_due_now(messages: list[Message]) -> None:
    sooner = in_hours(1)
    for not_before in (in_hours(2), in_hours(3), sooner, in_hours(4)):
        request_fetch(URL, not_before=not_before)
    assert Site.objects.get().due_at == sooner
    assert messages == []
    request_fetch(URL)
    site = Site.objects.get()
    assert (site.has_backlog, site.due_at) == (True, None)
    assert messages == [dispatch_message("site.example")]


def test_what_becomes_due_earlier_than_it_was_noted_is_found_by_sweep() -> None:
    """For example, if the process that made it due was killed."""
    fetch = request_fetch(URL, not_before=in_hours(1))
    Fetch.objects.filter(pk=fetch.pk).update(not_before=database_now())
    assert backlog.find_overlooked() == 1
    assert Site.objects.get().has_backlog


def test_a_tick_locks_no_site_that_has_only_future_work(other_connection: psycopg.Connection[Any]) -> None:
    request_fetch(URL, not_before=in_hours(1))
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")
    with waiting_for_nobody():
        assert dispatch() == 0


def test_very_many_become_due_in_short_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "SITES_AT_ONCE", 2)
    request_fetches([f"https://site-{number}.example/" for number in range(5)], not_before=in_hours(1))
    pass_time(1)
    assert backlog.activate_due() == 5
    assert Site.objects.filter(has_backlog=True, due_at=None).count() == 5


def test_a_site_that_is_locked_is_left_to_the_next_tick(other_connection: psycopg.Connection[Any]) -> None:
    request_fetches([URL, "https://other.example/"], not_before=in_hours(1))
    pass_time(1)
    other_connection.execute("SELECT id FROM weir_ratelimit_site WHERE name = 'site.example' FOR UPDATE")
    with waiting_for_nobody():
        assert backlog.activate_due() == 1
    other_connection.rollback()
    assert backlog.activate_due() == 1


def test_a_paused_site_waits_for_the_end_of_its_pause() -> None:
    request_fetch(URL, not_before=in_hours(1))
    site_settings.pause("site.example")
    pass_time(1)
    assert dispatch() == 0
    site_settings.resume("site.example")
    assert dispatch() == 1
