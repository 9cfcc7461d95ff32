"""The lists of the pages as files, with what strangers have written in them."""

import asyncio
import csv
import io
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import Client
from django.test.client import AsyncRequestFactory

from tests.integration.ops.test_acting import signed_in
from weir.ops.views import exports
from weir.ratelimit import site_settings
from weir.workers.audit import acting
from weir.workers.fetches.actions import sites
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.management import fetch_text
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.reports.fetch_way import fetch_way
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "a.example"


@pytest.fixture
def browser() -> Client:
    return signed_in()


def read(browser: Client, path: str) -> str:
    answer: Any = browser.get(path)
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    assert "attachment" in answer.headers["Content-Disposition"]
    return b"".join(answer.streaming_content).decode()


def rows(text: str) -> list[dict[str, str]]:
    assert text[:1] == "\ufeff"
    return list(csv.DictReader(io.StringIO(text[1:])))


def test_all_rows_that_the_filters_select_are_in_the_file(browser: Client) -> None:
    """Also those that the page does not show, as a page has a hundred."""
    request_fetches([f"https://{HOST}/{number}" for number in range(250)])
    request_fetches(["https://b.example/"])
    Fetch.objects.filter(url__endswith="/7").update(error='He said "no",\r\nthen left; ü')
    found = rows(read(browser, f"/fetches/export.csv?site={HOST}"))
    assert sorted(row["url"] for row in found) == sorted(f"https://{HOST}/{number}" for number in range(250))
    assert {row["error"] for row in found} == {"", 'He said "no",\r\nthen left; ü'}
    lines = [json.loads(line) for line in read(browser, f"/fetches/export.jsonl?site={HOST}").splitlines()]
    assert [str(line["id"]) for line in lines] == [row["id"] for row in found]


def test_each_list_has_both_forms(browser: Client) -> None:
    sites.set_rate(acting.of_shell("ada"), HOST, "3/s", why="=1+1")
    shipping.ship(Order.objects.create(number="1", customer_email="kim@example.com").pk)
    request_fetches([f"https://{HOST}/"])
    for page, name, value in (
        ("/sites/", "site", HOST),
        ("/fetches/", "url", f"https://{HOST}/"),
        ("/emails/?state=pending", "recipient", "kim@example.com"),
        ("/audit/", "target", HOST),
    ):
        shown = browser.get(page).content.decode()
        path, _, query = page.partition("?")
        assert 'href="export.csv?' in shown
        [row] = rows(read(browser, f"{path}export.csv?{query}"))
        line = json.loads(read(browser, f"{path}export.jsonl?{query}"))
        assert row[name] == line[name] == value
        assert row.keys() == line.keys()


def test_a_fetch_has_its_site_and_its_times(browser: Client) -> None:
    """Under the names that `fetches show` gives them; what has not happened is empty."""
    request_fetches([f"https://{HOST}/1", f"https://{HOST}/2"])
    at = {"started_at": "2026-01-31T12:00Z", "finished_at": "2026-01-31T12:01Z"}
    Fetch.objects.filter(url__endswith="/1").update(state="done", status_code=200, attempts=2, **at)
    found = {row["url"][-1]: row for row in rows(read(browser, "/fetches/export.csv"))}
    assert {(row["site"], row["max_attempts"], row["queued_at"][:2]) for row in found.values()} == {(HOST, "5", "20")}
    named = ("state", "status", "attempts", "started_at", "finished_at")
    assert [found["1"][name] for name in named] == [
        "done", "200", "2", "2026-01-31T12:00:00+00:00", "2026-01-31T12:01:00+00:00",
    ]  # fmt: skip
    assert [found["2"][name] for name in named] == ["queued", "", "0", "", ""]
    assert {*found["1"]} - {"status"} <= {*fetch_text.details(fetch_way(int(found["1"]["id"])))}


FORMULAS = ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n1", " =1", "\xa0=1", "\ufeff =1", "\uff1d1"]


def test_a_line_of_json_is_one_for_all_programs(browser: Client) -> None:
    """Some divide it where Unicode ends a line."""
    request_fetches([f"https://{HOST}/"])
    Fetch.objects.update(error="a\u2028b\u2029c\x85d")
    [line] = read(browser, "/fetches/export.jsonl").splitlines()
    assert json.loads(line)["error"] == "a\u2028b\u2029c\x85d"


@pytest.mark.parametrize("text", FORMULAS)
def test_a_spreadsheet_takes_no_text_for_a_formula(text: str) -> None:
    assert exports._cell(text) == f"'{text}"
    assert exports._cell({"a": text}).startswith("{")
    assert exports._cell(-1.5) == "-1.5"


@pytest.mark.parametrize(
    ("bound", "number", "why"),
    [
        (("MOST_ROWS", 150), 200, "This file ends after 200 rows, and there may be more."),
        (("LONGEST_S", 0.0), 100, "This file is not whole: it took longer than 0 s."),
    ],
)
def test_a_file_that_is_not_whole_says_so(
    browser: Client, monkeypatch: pytest.MonkeyPatch, bound: tuple[str, float], number: int, why: str
) -> None:
    """In its last line, as CSV in the first column; both bounds hold between two pages."""
    request_fetches([f"https://{HOST}/{number}" for number in range(250)])
    monkeypatch.setattr(exports, *bound)
    note = f"{why} Filter the list, or use the command."
    *found, last = read(browser, "/fetches/export.jsonl").splitlines()
    assert (len(found), json.loads(last)) == (number, {"note": note})
    *listed, end = rows(read(browser, "/fetches/export.csv"))
    assert (len(listed), next(iter(end.items()))) == (number, ("id", note))


def test_a_file_of_just_so_many_rows_is_whole(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    request_fetches([f"https://{HOST}/{number}" for number in range(100)])
    monkeypatch.setattr(exports, "MOST_ROWS", 100)
    monkeypatch.setattr(exports, "LONGEST_S", 0.0)
    assert len(rows(read(browser, "/fetches/export.csv"))) == 100
    assert "not whole" not in read(browser, "/fetches/export.jsonl")


def test_a_file_says_that_a_page_could_not_be_read(browser: Client) -> None:
    request_fetches([f"https://{HOST}/"])
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE weir_fetches_fetch RENAME TO away")
    try:
        assert "This file is not whole. PostgreSQL" in read(browser, "/fetches/export.csv")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO weir_fetches_fetch")


def test_who_may_not_see_the_page_gets_no_file() -> None:
    for of in ("sites", "fetches", "emails", "audit"):
        path = f"/{of}/export.csv"
        assert Client().get(path).status_code == 302
        assert signed_in(name=f"of-{of}", pages=False).get(path).status_code == 403
    assert signed_in().post("/audit/export.csv").status_code == 405


@pytest.mark.parametrize("query", ["status=x", "site=b..example", "since=yesterday"])
def test_a_wrong_filter_is_refused(browser: Client, query: str) -> None:
    answer = browser.get(f"/fetches/export.csv?{query}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "text/plain; charset=utf-8")


def test_an_asynchronous_server_reads_it_page_by_page() -> None:
    """Django would read all of it before the first byte, if it were no asynchronous iterator."""
    site_settings.set_rate(HOST, "3/s")
    request_fetches([f"https://{HOST}/{number}" for number in range(250)])
    user = User.objects.create_superuser("root")

    async def read_on() -> list[bytes]:
        request = AsyncRequestFactory().get("/fetches/export.jsonl")
        request.user = user
        answer = exports._file(request, "fetches", "jsonl")
        parts = [part async for part in answer]  # type: ignore[attr-defined]  # a stream
        await sync_to_async(connections.close_all)()  # that of the thread in which it was read
        return parts

    parts = asyncio.run(read_on())
    assert len(parts) >= 3
    assert len(b"".join(parts).splitlines()) == 250
