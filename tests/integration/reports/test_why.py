"""Why a fetch waits: each thing that can be in its way is named, until when, with what to do about it."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from tests.integration.conftest import claimed, database_now
from tests.integration.fetching import queue_pages
from tests.integration.plans import rows_read
from tests.integration.robots.conftest import known
from weir.postgres import statements
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers import broker_link
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import Failure
from weir.workers.fetches.models import Fetch, FetchState, RobotsState
from weir.workers.fetches.reports.waiting_fetch import UnknownFetch
from weir.workers.fetches.reports.why import FetchBlocker, why
from weir.workers.fetches.robots.rules import PATH
from weir.workers.processes.models import Process
from weir.workers.schedule import MOST_UNTAKEN

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "alive")]

SITE = "a.example"
PAGE = f"http://{SITE}/page"


def process(kind: str, silent_s: float = 0.0) -> Process:
    """Create a process of this kind, whose last heartbeat was so long ago."""
    turned_at = database_now() - timedelta(seconds=silent_s)
    return Process.objects.create(kind=kind, name=f"{kind}@host", host="host", pid=7, turned_at=turned_at)


@pytest.fixture
def alive(transactional_db: None) -> None:  # noqa: ARG001  must come first
    """Create a process of each kind that a fetch needs."""
    for kind in ("fetcher", "ticks", "beat"):
        process(kind)


@pytest.fixture
def page() -> int:
    """Queue a page of a site that allows one request in ten seconds, at which one is just reserved."""
    site_settings.set_rate(SITE, "1/10s")
    return request_fetch(PAGE).pk


def blockers(fetch_id: int) -> dict[str, FetchBlocker]:
    """Return what is in the way, by kind, the headline first."""
    return {blocker.kind: blocker for blocker in why(fetch_id).blockers}


def left_s(blocker: FetchBlocker) -> float:
    """Return how many seconds are left until it is over."""
    assert blocker.until is not None
    return (blocker.until - database_now()).total_seconds()


def told(*arguments: object) -> str:
    output = StringIO()
    call_command("fetches", "why", *map(str, arguments), stdout=output)
    return output.getvalue()


# --- it waits for its turn ------------------------------------------------------------------------------------------


def test_one_that_is_next_says_so(page: int) -> None:
    """Where nothing is in the way, its turn comes with the next tick."""
    [(kind, blocker)] = blockers(page).items()
    assert (kind, blocker.text) == ("rate", "It is the next one, at 1/10s: its turn comes in 0.6s.")
    assert 0 < left_s(blocker) < 2


def test_the_place_in_the_queue_and_the_rate_say_when_its_turn_comes(page: int) -> None:
    """Those of higher priority and those that have waited for longer come before it, as far as they are due."""
    request_fetches([f"{PAGE}/{n}" for n in range(3)], priority=5)
    request_fetch(f"{PAGE}/later", priority=5, not_before=database_now() + timedelta(hours=1))
    last = request_fetch(f"{PAGE}/last").pk
    assert blockers(page)["rate"].text.startswith("3 due fetches of a.example before it, at 1/10s: ")
    assert blockers(last)["rate"].text.startswith("4 due fetches of a.example before it, at 1/10s: ")
    assert 39 < left_s(blockers(last)["rate"]) < 46


def test_one_that_is_not_due_says_until_when_and_why(page: int) -> None:
    """Because it was asked for so, or because an attempt failed."""
    hour = database_now() + timedelta(hours=1)
    late = request_fetch(f"{PAGE}/later", not_before=hour).pk
    assert blockers(late)["not due"] == FetchBlocker(kind="not due", text="It is not due yet.", until=hour)
    dispatch()
    job = claimed(page)
    store([judge(Failure(job=job, error="Connection refused"), max_body=10, chance=0.0)])
    found = blockers(page)["not due"]
    assert found.text.startswith("It is not due yet: attempt 1 of 5 ended with: Connection refused")
    assert found.until == Fetch.objects.get(pk=page).not_before


# --- its site -------------------------------------------------------------------------------------------------------


def test_a_pause_says_until_when_and_how_it_is_ended(page: int) -> None:
    """One without an end has no time, and no forecast."""
    site_settings.pause(SITE, timedelta(minutes=10))
    paused = blockers(page)["paused"]
    assert (paused.text, paused.remedy) == ("The site a.example is paused.", "manage.py sites resume a.example")
    assert 590 < left_s(paused) <= 600
    site_settings.pause(SITE)
    (kind, paused), (_, rate) = blockers(page).items()
    assert rate == FetchBlocker(kind="rate", text="It is the next one, at 1/10s.")  # nobody knows when
    assert (kind, paused.text, paused.until) == (
        "paused",
        "The site a.example is paused until an operator resumes it.",
        None,
    )


def test_a_back_off_and_an_unreachable_site_say_until_when_and_why(page: int) -> None:
    """The words of the error are the site's."""
    site_settings.back_off(SITE, 200)
    assert blockers(page)["backed off"].text == "The site a.example refused requests, and is backed off."
    assert 190 < left_s(blockers(page)["backed off"]) <= 200
    site_settings.resume(SITE)
    site_settings.back_off(SITE, error="Connection refused")
    unreachable = blockers(page)["unreachable"]
    assert unreachable.text == "The site a.example cannot be reached: Connection refused."
    assert list(blockers(page)) == ["unreachable", "rate"]


def test_a_limit_of_concurrency_that_is_used_up_is_named(page: int) -> None:
    """With how many of how many; one that is not used up is not in the way."""
    site_settings.set_rate(SITE, "1/10s", max_concurrency=1)
    second = request_fetch(f"{PAGE}/second").pk
    assert "concurrency" not in blockers(second)
    dispatch()
    assert Fetch.objects.get(pk=page).state == FetchState.RESERVED
    found = blockers(second)["concurrency"]
    assert found.text == "a.example allows 1 at once, and has 1 reserved or in flight."
    assert found.remedy == "manage.py sites set a.example --max-concurrency 2"


# --- robots.txt -----------------------------------------------------------------------------------------------------


def test_a_robots_txt_that_is_not_known_is_named_with_the_fetch_that_asks_for_it(settings: Settings) -> None:
    """And in which state that is; one that cannot be read, with its error and until when."""
    settings.WEIR_OBEY_ROBOTS = True
    site_settings.set_rate(SITE, "1/10s")
    page = request_fetch(PAGE).pk
    asking = Fetch.objects.get(is_robots=True)
    found = blockers(page)["robots.txt"]
    assert found.text == f"http://a.example{PATH} is not known yet: fetch {asking.pk}, which asks for it, is queued."
    assert found.remedy == f"manage.py fetches why {asking.pk}"
    assert "robots.txt" not in blockers(asking.pk)
    Fetch.objects.filter(pk=asking.pk).delete()
    assert blockers(page)["robots.txt"].text.endswith("it is asked for when a fetcher takes this fetch.")
    again = database_now() + timedelta(seconds=50)
    known(f"http://{SITE}", RobotsState.UNREACHABLE, error="status 503", refresh_at=again, expires_at=again)
    found = blockers(page)["robots.txt unreachable"]
    assert "cannot be read (status 503)" in found.text
    assert found.until == again
    Fetch.objects.filter(pk=page).update(not_before=again + timedelta(seconds=1))
    assert list(blockers(page)) == ["robots.txt unreachable", "rate"]
    Fetch.objects.filter(pk=page).update(not_before=again + timedelta(hours=1))
    assert list(blockers(page)) == ["not due", "robots.txt unreachable", "rate"]  # what lasts longest comes first
    Fetch.objects.filter(pk=page).update(not_before=database_now())
    assert left_s(blockers(page)["rate"]) > 45
    known(f"http://{SITE}", error="")
    assert list(blockers(page)) == ["rate"]


# --- it has a slot --------------------------------------------------------------------------------------------------


def test_one_that_is_reserved_says_when_its_slot_begins(page: int) -> None:
    """And once that has passed, that no fetcher has taken it, and when it is queued again."""
    dispatch()
    slot = Slot.objects.get()
    later = database_now() + timedelta(seconds=30)
    Slot.objects.update(start_time=later)
    [(kind, found)] = blockers(page).items()
    assert (kind, found.until) == ("slot", later)
    Slot.objects.update(start_time=slot.start_time - timedelta(seconds=5))
    [(kind, found)] = blockers(page).items()
    assert kind == "not taken"
    assert "and no fetcher has taken it" in found.text
    assert found.until == Fetch.objects.get().lease_until


def test_one_that_is_running_says_where_and_whether_that_process_is_silent(page: int) -> None:
    """It is in flight at a fetcher, which may have died."""
    dispatch()
    claimed(page)
    fetcher = Process.objects.get(kind="fetcher")
    Fetch.objects.update(claimed_by=fetcher.pk)
    Slot.objects.update(start_time=database_now() - timedelta(seconds=3))
    assert blockers(page)["in flight"].text.startswith("It is in flight for 3.")
    assert blockers(page)["in flight"].text.endswith("at fetcher@host.")
    Process.objects.filter(pk=fetcher.pk).update(turned_at=database_now() - timedelta(seconds=20))
    assert blockers(page)["holder silent"].text.startswith("fetcher@host has it, and has been silent for 20")


# --- processes and messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("fetcher", "No fetcher has been alive for 40s: no request is sent."),
        ("ticks", "No worker of the queue weir.ticks has been alive for 40s: no slot is given out."),
        ("beat", "No beat has been alive for 40s: nothing calls dispatch."),
    ],
)
def test_a_process_that_is_missing_is_the_headline(kind: str, sentence: str, page: int) -> None:
    """Seconds after it died, and for as long as its row is kept."""
    Process.objects.filter(kind=kind).update(turned_at=database_now() - timedelta(seconds=40))
    (first, found), *_ = blockers(page).items()
    assert (first, found.text, found.remedy) == (f"no {kind}", sentence, "manage.py processes")
    assert blockers(page)["rate"].until is None  # nobody knows
    Process.objects.filter(kind=kind).delete()
    assert " is known: " in blockers(page)[f"no {kind}"].text


def test_a_broker_that_is_away_or_full_is_named(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No fetcher hears of anything; or none gets through what waits."""

    def away(_queue: str) -> int:
        raise broker_link.BrokerUnreachable("refused")

    monkeypatch.setattr(broker_link, "waiting_in", away)
    assert next(iter(blockers(page))) == "broker"
    monkeypatch.setattr(broker_link, "waiting_in", lambda _queue: MOST_UNTAKEN + 1)
    assert blockers(page)["fetchers behind"].text.startswith("Fetchers are behind: 501 messages wait for them")


# --- its end, and the command ---------------------------------------------------------------------------------------


def test_one_that_has_ended_says_how(page: int) -> None:
    """A failed one can be retried."""
    end: dict[str, Any] = {"finished_at": database_now()}
    Fetch.objects.filter(pk=page).update(state=FetchState.FAILED, error="Connection refused", **end)
    assert why(page).blockers == [
        FetchBlocker(
            kind="ended", text="It has ended: failed: Connection refused.", remedy=f"manage.py fetches retry {page}"
        )
    ]
    Fetch.objects.filter(pk=page).update(state=FetchState.DONE, error="", status_code=200, **end)
    assert why(page).blockers == [FetchBlocker(kind="ended", text="It has ended: done with status 200.")]


def test_a_fetch_whose_site_was_deleted_follows_its_host(page: int) -> None:
    """For a moment it has no site."""
    Site.objects.filter(name=SITE)._raw_delete("default")
    assert list(blockers(page)) == ["no site"]


def test_the_command_says_each_in_a_line_the_headline_first(page: int) -> None:
    """With the time, how long that is, and what to do; for machines, in one object."""
    site_settings.pause(SITE, timedelta(minutes=10))
    site_settings.back_off(SITE, error="\x1b[31mrefused")
    first, *lines = told(page).splitlines()
    assert first == f"fetch {page} (queued)"
    assert [line.split(":")[0].strip() for line in lines] == ["paused", "unreachable", "rate"]
    assert lines[0].endswith("-> manage.py sites resume a.example")
    assert " UTC, in 10m 00s." in lines[0] or " UTC, in 9m 59s." in lines[0]
    assert "\x1b" not in "".join(lines)
    data = json.loads(told(page, "--json"))
    assert [blocker["kind"] for blocker in data["blockers"]] == ["paused", "unreachable", "rate"]
    assert (data["id"], data["state"], data["blockers"][0]["remedy"]) == (
        page,
        "queued",
        "manage.py sites resume a.example",
    )


def test_a_fetch_that_is_not_there_is_refused() -> None:
    with pytest.raises(CommandError, match=r"There is no fetch 77: no fetch was given .*, or it was purged\."):
        told(77)


# --- what it costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("analyze", [False, True])
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_long_queue_is_not_read_whole(analyze: bool, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows as are counted, whatever the statistics, and less than ten queries."""
    monkeypatch.setattr("weir.workers.fetches.reports.why.MOST_AHEAD", 100)
    site_settings.set_rate(SITE, "1/10s", max_concurrency=3)
    queue_pages(5_000)
    ids = Fetch.objects.order_by("not_before", "pk").values_list("pk", flat=True)
    asked = ids[0] if place == "first" else ids.reverse()[0]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_fetches_fetch'::regclass")
        if analyze:
            cursor.execute("ANALYZE weir_fetches_fetch, weir_ratelimit_site")
    parameters = {"fetch": asked, "obey": True, "path": PATH, "most": 100}
    assert rows_read("weir.workers.fetches", "why", parameters, "weir_fetches_fetch") < 110
    ran: list[None] = []
    statements.before_each(lambda: ran.append(None))
    found = blockers(asked)["rate"]
    statements.before_each(lambda: None)
    assert 0 < len(ran) < 10
    if place == "last":
        assert found.text.startswith("100 or more due fetches of a.example before it")


def test_a_number_that_no_id_can_be_is_not_looked_for() -> None:
    """PostgreSQL would compare it with each row: no index has numbers of that size."""
    ran: list[None] = []
    statements.before_each(lambda: ran.append(None))
    with pytest.raises(UnknownFetch):
        why(2**63)
    statements.before_each(lambda: None)
    assert not ran
