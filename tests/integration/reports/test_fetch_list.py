"""The list of fetches: each filter, page after page, at a cost that does not grow with the table."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from tests.cases import case
from tests.integration.conftest import database_now
from tests.integration.plans import rows_read_by
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.ratelimit import site_settings
from weir.ratelimit.sites import UnknownSite
from weir.workers import cursors
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.reports import fetch_filters, fetch_list
from weir.workers.fetches.reports.fetch_list import FetchPage

pytestmark = pytest.mark.django_db(transaction=True)

A, B = "a.example", "b.example"
ENDED = ("done", "failed", "cancelled")
# Of five fetches two are queued, one of them later, one is done, one failed, one was cancelled; every other is of B.
FILL = """
    INSERT INTO weir_fetches_fetch (
        url, hop_url, site_id, state, priority, max_attempts, error, status_code, not_before, created_at,
        finished_at, reference
    )
    SELECT
        'http://' || CASE WHEN n % 2 = 0 THEN %(a)s ELSE %(b)s END || '/' || n, '',
        (SELECT id FROM weir_ratelimit_site WHERE name = CASE WHEN n % 2 = 0 THEN %(a)s ELSE %(b)s END),
        (ARRAY['queued', 'queued', 'done', 'failed', 'cancelled'])[n % 5 + 1], n % 3, 5,
        CASE WHEN n % 5 = 3 THEN 'Connection refused ' || n % 7 ELSE '' END, CASE WHEN n % 5 = 2 THEN 200 + n % 5 END,
        now() - n * interval '1 minute', now() + n * interval '1 second',
        CASE WHEN n % 5 > 1 THEN now() - n * interval '1 minute' END, CASE WHEN n % 2 = 0 THEN 'r' || n % 3 END
    FROM generate_series(1, %(fetches)s) AS n
"""


@pytest.fixture(autouse=True)
def _filled() -> None:
    fill(1_000)


def fill(fetches: int) -> None:
    """Create so many fetches."""
    for site in (A, B):
        site_settings.set_rate(site, "1/s")
    with connection.cursor() as cursor:
        cursor.execute(FILL.replace("% ", "%% "), {"a": A, "b": B, "fetches": fetches})


def pages(texts: Mapping[str, Sequence[str]]) -> list[FetchPage]:
    """Return all pages of a list."""
    filters = fetch_filters.read(texts, database_now())
    found = [fetch_list.fetch_list(filters)]
    while found[-1].next:
        found.append(fetch_list.fetch_list(filters, found[-1].next))
    return found


def ids(found: Sequence[FetchPage]) -> list[int]:
    return [fetch.id for page in found for fetch in page.fetches]


def meant(texts: Mapping[str, Sequence[str]], rows: Sequence[Fetch]) -> set[int]:
    """Return what is asked for, found by another way: one row after the other, in Python."""
    url, ago = texts.get("url", [""])[0], database_now() - timedelta(hours=2)
    return {
        fetch.pk
        for fetch in rows
        if fetch.state in texts.get("state", [fetch.state])
        and texts.get("site", [fetch.site and fetch.site.name])[0] == (fetch.site and fetch.site.name)
        and texts.get("error", [""])[0].lower() in fetch.error.lower()
        and str(fetch.status_code) == texts.get("status", [str(fetch.status_code)])[0]
        and texts.get("reference", [fetch.reference])[0] == fetch.reference
        and has(fetch.url, url)
        and ("since" not in texts or (fetch.finished_at is not None and fetch.finished_at > ago))
    }


def has(url: str, text: str) -> bool:
    if "://" not in text:
        return text.strip("*").lower() in url.lower()
    return url.startswith(text[:-1]) if text.endswith("*") else url == text


FILTERS: list[dict[str, list[str]]] = [
    {},
    {"state": ["queued"]},
    {"state": ["failed"]},
    {"state": ["failed", "cancelled"]},
    {"state": ["done"]},
    {"state": ["reserved", "running"]},
    {"state": ["queued", "failed"]},
    {"site": [A]},
    {"site": [A], "state": ["queued"]},
    {"site": [B], "state": ["failed", "done"]},
    {"site": [B], "error": ["REFUSED 3"]},
    {"status": ["203"]},
    {"error": ["refused"]},
    {"url": [f"http://{A}/*"]},
    {"url": [f"http://{A}/10*"], "state": ["failed"]},
    {"url": [f"http://{B}/7"]},
    {"url": [f"{A}/7*"]},
    {"url": ["*EXAMPLE/70"]},
    {"url": ["/10"], "site": [A]},
    {"url": ["*5*"], "state": ["failed"], "since": ["2h"]},
    {"url": ["*"]},
    {"since": ["2h"]},
    {"since": ["2h"], "state": ["failed"], "site": [A]},
    {"url": [f"http://{A}/*"], "since": ["2h"]},
    {"reference": ["r1"]},
    {"reference": ["r1"], "state": ["failed", "running"], "site": [A]},
    {"reference": ["r2"], "url": [f"http://{A}/1*"]},
]


@pytest.mark.parametrize("look", [20_000, 60])
def test_each_filter_finds_what_is_meant_once_page_after_page(look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a page ends before it is full, as it looked at so many rows."""
    monkeypatch.setattr(fetch_list, "LOOKED_AT", look)
    queued = Fetch.objects.filter(state="queued").order_by("pk").values_list("pk", flat=True)
    held = {"state": "running", "slot_id": 1, "lease_until": database_now()}
    Fetch.objects.filter(pk__in=list(queued[:150:5])).update(**held)
    rows = list(Fetch.objects.select_related("site"))
    for texts in FILTERS:
        found = pages(texts)
        assert sorted(ids(found)) == sorted(meant(texts, rows)), texts
        assert all(len(page.fetches) == fetch_list.ROWS or page.looked_at for page in found[:-1]), texts


def test_the_newest_come_first_and_of_a_queue_what_starts_next() -> None:
    """Of those that ended, the last end; of URLs, the last in their order."""
    assert ids(pages({})) == list(Fetch.objects.order_by("-pk").values_list("pk", flat=True))
    assert ids(pages({"state": ["queued"]})) == list(
        Fetch.objects.filter(state="queued").order_by("-pk").values_list("pk", flat=True)
    )
    of_a = Fetch.objects.filter(site__name=A)
    queue = list(of_a.filter(state="queued").order_by("-priority", "not_before", "pk").values_list("pk", flat=True))
    ended = list(of_a.filter(state__in=ENDED).order_by("-finished_at").values_list("pk", flat=True))
    assert ids(pages({"site": [A]})) == [*queue, *ended]
    assert ids(pages({"url": ["example"]})) == ids(pages({}))
    urls = [fetch.url for page in pages({"url": ["http://*"]}) for fetch in page.fetches]
    assert urls == sorted(urls, reverse=True)


def test_a_long_list_is_counted_as_far_as_ten_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """And then says that there are more; so it does where the rows that were looked at do not tell."""
    failed = fetch_filters.read({"state": ["failed"]}, database_now())
    assert str(fetch_list.count(failed)) == "200"
    monkeypatch.setattr(fetch_list, "MOST_COUNTED", 150)
    assert str(fetch_list.count(failed)) == "150+"
    monkeypatch.setattr(fetch_list, "LOOKED_AT", 70)
    assert str(fetch_list.count(failed)) == "70+"


def test_a_short_page_says_how_many_fetches_were_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes it for the end of the list."""
    monkeypatch.setattr(fetch_list, "LOOKED_AT", 60)
    first, *_ = pages({"state": ["failed"], "error": ["refused 3"]})
    assert (len(first.fetches) < fetch_list.ROWS, first.note) == (True, "60 fetches were looked at: go on for more.")


@pytest.mark.parametrize(
    ("texts", "looked_at"),
    [
        ({"url": ["http://*"], "error": ["nothing"]}, 30),
        ({"state": ["failed"], "error": ["nothing"]}, 30),
        ({"site": [A], "state": ["done"], "status": ["599"]}, 30),
        ({"state": ["done"], "status": ["599"]}, 60),
        ({"url": ["/nothing/"]}, 60),
        ({"url": ["/nothing/"], "site": [A], "state": ["done"]}, 30),
    ],
    ids=str,
)
def test_fewer_fetches_are_looked_at_where_each_lies_elsewhere(
    texts: dict[str, list[str]], looked_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk reads each of them by itself, and no statement of a page may take longer than a second."""
    monkeypatch.setattr(fetch_list, "LOOKED_AT", 60)
    monkeypatch.setattr(fetch_list, "LOOKED_AT_SCATTERED", 30)
    first, *_ = pages(texts)
    assert first.looked_at == looked_at


WRONG: list[tuple[dict[str, list[str]], str]] = [
    ({"state": ["faild"]}, "There is no state 'faild'. Did you mean failed?"),
    ({"stat": ["failed"]}, "There is no filter 'stat'. Did you mean state?"),
    ({"status": ["ok"]}, "status must be a number from 100 to 999, not 'ok'."),
    ({"status": ["1" * 50]}, "status must be a number from 100 to 999"),
    ({"status": ["0200"]}, "status must be a number from 100 to 999, not '0200'."),
    ({"status": ["0100" + "9" * 20]}, "status must be a number from 100 to 999"),
    ({"status": ["099"]}, "status must be a number from 100 to 999, not '099'."),
    ({"since": ["yesterday"]}, "since must be a time such as 2026-01-31T12:00Z, or how long ago, such as 2h, not"),
    ({"since": ["2026-99-99"]}, "since must be a time"),
    ({"since": ["0001-01-01T00:00Z"]}, "since must be a time"),
    ({"url": ["a", "b"]}, "url is given 2 times: once is meant."),
    ({"url": ["x" * 9_000]}, "url is longer than 8,000 characters."),
    ({"error": ["\0"]}, "error is not text in UTF-8."),
    ({"error": ["\ud800"]}, "error is not text in UTF-8."),
    ({"state": ["queued"], "since": ["2h"]}, "since and until are times of an end: ask for done, failed or"),
    ({"site": ["http://a.example/"]}, "does not name a site"),
]


def test_a_wrong_filter_is_refused_in_a_sentence() -> None:
    """It would find something else, or nothing."""
    for texts, sentence in WRONG:
        with case(f"{texts}"[:80]), pytest.raises(ValueError, match=re.escape(sentence)):
            fetch_filters.read(texts, database_now())


def test_a_site_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownSite, match=r"There is no site 'aa\.example'"):
        fetch_filters.read({"site": ["aa.example"]}, database_now())


def test_a_cursor_of_another_list_is_refused() -> None:
    """None of them reaches the database."""
    for cursor in ("x", "!!", "bnVsbA", "W10", "WyJuZXdlc3QiLC0xXQ", "WyJxdWV1ZWQiLDFd", "WyJuZXdlc3QiLDFlOTld"):
        with case(cursor), pytest.raises(cursors.BadCursor):
            fetch_list.fetch_list(fetch_filters.Filters(), cursor)


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each statement adds how many rows of fetches it reads."""
    read: list[int] = []
    execute = statements.execute

    def counted(statement: Statement[Any], parameters: dict[str, object], *database: Any) -> list[Any]:
        read.append(rows_read_by(statement.text, "weir_fetches_fetch", parameters=parameters))
        return execute(statement, parameters, *database)

    monkeypatch.setattr(statements, "execute", counted)
    return read


PAGES: list[dict[str, list[str]]] = [
    {},
    {"state": ["failed"]},
    {"state": ["failed", "cancelled"]},
    {"state": ["queued"]},
    {"state": ["done"]},
    {"site": [A], "state": ["queued"]},
    {"site": [A], "state": ["done", "failed"]},
    {"url": [f"http://{A}/7*"]},
    {"url": [f"{A}/"]},
    {"reference": ["r1"]},
]


@pytest.mark.parametrize("analyze", [False, True])
def test_a_page_reads_its_own_rows_whatever_the_statistics(analyze: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a few that it passes over: of those that ended, a third is done here."""
    fill(10_000)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_fetches_fetch'::regclass")
        if analyze:
            cursor.execute("ANALYZE weir_fetches_fetch, weir_ratelimit_site")
    read = counted_reads(monkeypatch)
    for texts in PAGES:
        read.clear()
        page = fetch_list.fetch_list(fetch_filters.read(texts, database_now()))
        assert len(page.fetches) == fetch_list.ROWS, texts
        assert sum(read) < 5 * fetch_list.ROWS, texts


def test_a_second_list_in_a_transaction_reads_its_own_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the one needs what the order of the other forbids: a sort of rows that ended at the same time."""
    fill(10_000)
    read = counted_reads(monkeypatch)
    with transaction.atomic():
        for state in ("queued", "done"):
            read.clear()
            assert len(fetch_list.fetch_list(fetch_filters.read({"state": [state]}, database_now())).fetches)
            assert sum(read) < 5 * fetch_list.ROWS, state
