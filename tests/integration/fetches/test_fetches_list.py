"""`manage.py fetches list`: which fetches it shows, how, and what PostgreSQL reads for it."""

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from tests.integration.conftest import database_now
from tests.integration.fetching import queue_pages
from tests.integration.plans import rows_read_by
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.management.listing import LISTED
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.reports import fetch_list

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


def told(*arguments: object) -> str:
    """Return what the command prints."""
    output = StringIO()
    call_command("fetches", "list", *map(str, arguments), stdout=output)
    return output.getvalue()


def listed(*arguments: object) -> list[int]:
    """Return the ids in the list for machines."""
    return [fetch["id"] for fetch in json.loads(told("--json", *arguments))["fetches"]]


def end(fetch_id: int, state: FetchState, minutes_ago: float = 1, **fields: Any) -> None:
    ended = database_now() - timedelta(minutes=minutes_ago)
    Fetch.objects.filter(pk=fetch_id).update(state=state, finished_at=ended, **fields)


@pytest.fixture
def five() -> list[int]:
    """Make one done and two failed fetches of a.example, a failed one of b.example, and one that waits."""
    hosts = ("a.example", "a.example", "a.example", "b.example", "b.example")
    ids = [fetch.pk for fetch in request_fetches([f"http://{host}/{n}" for n, host in enumerate(hosts)])]
    end(ids[0], FetchState.DONE, 181, status_code=200)
    end(ids[1], FetchState.FAILED, 121, status_code=503, error="the site answered 503 (attempt 5 of 5)")
    end(ids[2], FetchState.FAILED, 61, error="Connection refused (attempt 5 of 5)")
    end(ids[3], FetchState.FAILED, 1, status_code=503, error="the site answered 503 (attempt 1 of 1)")
    return ids


def test_the_newest_come_first_each_with_its_state_status_url_and_error(five: list[int]) -> None:
    """The list shows at a glance how fetches ended."""
    lines = [line.strip().split(maxsplit=4) for line in told().splitlines()]
    assert lines[0] == ["id", "state", "status", "URL", "error"]
    states = ("queued", "failed", "failed", "failed", "done")
    assert [line[:2] for line in lines[1:]] == [
        list(pair) for pair in zip(map(str, reversed(five)), states, strict=True)
    ]
    assert lines[2][2:] == ["503", "http://b.example/3", "the site answered 503 (attempt 1 of 1)"]


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (["--state", "failed"], [3, 2, 1]),
        (["--state", "failed", "--status", "503"], [3, 1]),
        (["--site", "A.Example."], [2, 1, 0]),
        (["--error", "connection REFUSED"], [2]),
        (["--error", "connection REFUSED*"], [2]),
        (["--error", "refused*"], []),
        (["--since", "2h"], [3, 2]),
        (["--site", "a.example", "--status", "503", "--since", "1d"], [1]),
        (["--state", "queued"], [4]),
        (["--state", "running"], []),
        (["--limit", "2"], [4, 3]),
        (["--state", "done", "--state", "queued"], [4, 0]),
        (["--url", "http://a.example/*"], [2, 1, 0]),
        (["--url", "http://a.example/1"], [1]),
        (["--until", "1h", "--since", "150m"], [2, 1]),
        (["1-9999999", "--url", "http://a.example/*", "--until", "2h"], [1, 0]),
    ],
)
def test_a_filter_chooses_which_are_listed(arguments: list[str], places: list[int], five: list[int]) -> None:
    """All given filters must hold."""
    assert listed(*arguments) == [five[place] for place in places]


def test_ids_and_ranges_of_ids_choose_which_are_listed(five: list[int]) -> None:
    """In the form in which `fetch --no-wait` prints them."""
    assert listed(five[0], f"{five[2]}-{five[3]}", five[0]) == [five[3], five[2], five[0]]
    assert listed(f"{five[0]}-{five[-1]}", "--state", "done") == [five[0]]


def test_what_is_listed_as_failed_is_what_a_retry_queues(five: list[int]) -> None:
    """The same filters mean the same fetches."""
    filters = ("--status", "503", "--site", "b.example")
    chosen = listed("--state", "failed", *filters)
    call_command("fetches", "retry", *filters, stdout=StringIO())
    assert (
        list(Fetch.objects.filter(state=FetchState.QUEUED).exclude(pk=five[4]).values_list("pk", flat=True)) == chosen
    )


def test_that_there_are_more_is_said(five: list[int]) -> None:
    """For people and for machines; and if there are none, that is said, too."""
    first = json.loads(told("--json", "--limit", "4"))
    assert told("--limit", "4").endswith(f"There are more: --limit N shows N. --after {first['next']} goes on.\n")
    assert listed("--limit", "4", "--after", first["next"]) == [five[0]]
    assert told(f"{five[0]}-{five[-1]}", "--limit", "4").endswith("There are more: --limit N shows N.\n")
    assert "more" not in told("--limit", "5")
    assert [json.loads(told("--json", "--limit", n))["more"] for n in (len(five) - 1, len(five))] == [True, False]
    assert told("--status", "418") == "No fetches.\n"


def test_the_list_for_machines_has_all_fields(five: list[int]) -> None:
    """Whole texts, and null where there was no answer."""
    long = "http://a.example/" + "x" * 1_000
    Fetch.objects.filter(pk=five[2]).update(url=long)
    told_of = json.loads(told(five[2], "--json"))
    [fetch] = told_of.pop("fetches")
    assert told_of == {"more": False, "next": None}
    moments = {name: datetime.fromisoformat(fetch.pop(name)) for name in ("queued_at", "finished_at")}
    assert moments["queued_at"] - moments["finished_at"] < timedelta(minutes=62)  # `five` have ended before
    assert fetch == {
        "id": five[2],
        "state": "failed",
        "status": None,
        "url": long,
        "error": "Connection refused (attempt 5 of 5)",
        "incomplete": "",
        "site": "a.example",
        "share": None,
        "reference": None,
        "attempts": 0,
        "max_attempts": 5,
        "started_at": None,
    }


def test_what_sites_wrote_cannot_steer_the_terminal(five: list[int]) -> None:
    """Nor is it markup; a long text is cut in the table."""
    Fetch.objects.filter(pk=five[1]).update(error="[red]\x1b[31m" + "x" * 1_000)
    table = told(five[1])
    assert "[red]" in table
    assert "\x1b" not in table
    assert 100 < table.count("x") < 300


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["abc"], "argument ID: must be a whole number above 0, not 'abc'"),
        (["7-"], "argument ID: must be a whole number above 0, not ''"),
        (["9-7"], "argument ID: must be FIRST-LAST, not '9-7'"),
        (["--limit", "0"], "argument --limit: must be a whole number above 0, not '0'"),
        (["--state", "lost"], "There is no state 'lost'. The states are queued, reserved, "),
        (["--site", "nowhere.example"], "There is no site 'nowhere.example'"),
        (
            ["--since", "soon"],
            "since must be a time such as 2026-01-31T12:00Z, or how long ago, such as 2h,",
        ),
        (["--since", "2h", "--state", "queued"], "since and until are times of an end"),
        (["--status", "5xx"], "status must be a number from 100 to 999, not '5xx'."),
        (["--after", "nonsense"], "The cursor does not belong to this list"),
        (["--after", "x", "7"], "Give IDs, or --after: not both."),
    ],
)
def test_what_is_not_clear_is_refused_in_a_sentence(arguments: list[str], sentence: str) -> None:
    """As in all commands."""
    with pytest.raises(CommandError) as refusal:
        told(*arguments)
    assert sentence in str(refusal.value)


# --- what PostgreSQL reads ------------------------------------------------------------------------------------------

MANY, FEW = 5_000, 10


@pytest.fixture
def rare() -> list[int]:
    """Make thousands of fetches that ended long ago, and few others, all older: three times `FEW`, which it returns."""
    site_settings.set_rate("a.example", "1/s")
    queue_pages(MANY)
    ids = list(Fetch.objects.order_by("pk").values_list("pk", flat=True))
    running, waiting, ended = ids[:FEW], ids[FEW : 2 * FEW], ids[2 * FEW : 3 * FEW]
    long_ago = database_now() - timedelta(days=3)
    Fetch.objects.filter(pk__in=running).update(state=FetchState.RUNNING, slot_id=F("pk"), lease_until=F("created_at"))
    Fetch.objects.exclude(pk__in=running + waiting).update(state=FetchState.DONE, status_code=200, finished_at=long_ago)
    Fetch.objects.filter(pk__in=ended).update(finished_at=database_now())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE weir_fetches_fetch")
    return [*running, *waiting, *ended]


def test_no_more_are_read_than_are_listed(rare: list[int]) -> None:
    """Named fetches are, and one more, which tells whether there are more."""
    with CaptureQueriesContext(connection) as ran:
        assert len(listed(f"{rare[0]}-{rare[-1]}")) == LISTED
    assert rows_read_by(ran[-1]["sql"], "weir_fetches_fetch") == LISTED + 1


def test_a_long_list_is_read_page_by_page(rare: list[int]) -> None:
    """As many as are asked for, even if that is more than a page has."""
    some = listed("--state", "done", "--site", "a.example", "--limit", "250")
    assert (len(some), len(set(some))) == (250, 250)
    assert set(rare[2 * FEW :]) < set(some)


def test_where_few_meet_the_filters_the_list_ends_and_says_how_it_goes_on(
    rare: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not read the whole table in one go."""
    monkeypatch.setattr(fetch_list, "LOOKED_AT", 1_000)
    Fetch.objects.filter(pk=rare[-1]).update(error="it is the one")
    Fetch.objects.filter(pk=rare[-1]).update(finished_at=database_now() - timedelta(days=9))

    found, cursor = [], ""
    while cursor is not None:
        part = json.loads(told("--json", "--error", "the one", *(["--after", cursor] if cursor else [])))
        found.append([fetch["id"] for fetch in part["fetches"]])
        cursor = part["next"]

    assert found == [*[[]] * 4, [rare[-1]]]
    first = told("--error", "the one")
    assert first.startswith("No fetches. 1,000 fetches were looked at: go on for more. --after ")
