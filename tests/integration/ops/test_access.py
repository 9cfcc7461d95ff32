"""Who sees the operators' pages, what a browser may do with them, and how they are asked for again."""

import asyncio
import re
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.html import escape

from project.logins import links
from tests.integration.ops.conftest import Forget
from tests.waiting import wait_for
from weir.ops import answers, pages
from weir.ops.answers import GivenAgain
from weir.ops.pages import PAGES, rendered
from weir.postgres import bounded
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch

pytestmark = pytest.mark.django_db(transaction=True)

PATHS = [
    "/",
    "/sites/",
    "/fetches/",
    "/batches/",
    "/watches/",
    "/webhooks/",
    "/unread/",
    "/emails/",
    "/effects/",
    "/audit/",
]
LIVE = {"X-Weir-Live": "1"}


@pytest.fixture
def operator() -> Client:
    """Return a browser in which the operator is signed in."""
    client = Client()
    client.force_login(links.operator())
    return client


def test_each_page_is_in_the_tests() -> None:
    """A page that is added is held to the same."""
    assert len(PATHS) == len(PAGES)


@pytest.mark.parametrize("path", [*PATHS, "/sites/a.example/", "/fetches/1/", "/emails/1/", "/effects/1/"])
def test_a_visitor_is_asked_to_sign_in_and_told_nothing(path: str) -> None:
    """Not even whether there is such a fetch."""
    response = Client().get(path)
    assert response.status_code == 302
    assert response["Location"] == f"/sign-in/?next={path}"
    assert response.content == b""
    live = Client().get(path, headers=LIVE)
    assert (live.status_code, live.content) == (401, b"You are signed out.")


def test_who_signs_in_comes_to_what_was_asked_for() -> None:
    """With its filters."""
    assert Client().get("/fetches/?state=failed")["Location"] == "/sign-in/?next=/fetches/%3Fstate%3Dfailed"


@pytest.mark.parametrize("path", PATHS)
def test_the_navigation_says_which_page_this_is(operator: Client, path: str) -> None:
    """So it does on pages below that page, and it names no other."""
    assert re.findall(r'href="([^"]*)" aria-current', operator.get(path).text) == [path]


@pytest.mark.parametrize("path", PATHS)
def test_a_user_without_the_permission_is_told_what_is_missing(path: str) -> None:
    """No page shows a number."""
    client = Client()
    client.force_login(User.objects.create_user("kim"))
    response = client.get(path)
    assert response.status_code == 403
    assert "weir_ops.view" in response.text
    assert "Overview" not in response.text


def test_an_address_without_a_page_leads_to_the_pages() -> None:
    """It tells nothing else, whoever asks."""
    response = Client().get("/nothing/")
    assert response.status_code == 404
    assert "There is no page at this address" in response.text
    assert 'href="/"' in response.text


@pytest.mark.parametrize("path", PATHS)
def test_a_page_runs_and_loads_nothing_of_others(operator: Client, path: str) -> None:
    """No script and no style stands in a page, and the browser is told to run none."""
    response = operator.get(path)
    assert response.status_code == 200
    assert response["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cache-Control"] == "no-store"
    assert "style=" not in response.text
    assert "onclick" not in response.text
    assert "<script>" not in response.text


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_pages_only_show(operator: Client, method: str) -> None:
    """What changes something is not a page; the answer names the methods that are allowed."""
    response = getattr(operator, method)("/")
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")
    assert operator.head("/").status_code == 200


@pytest.mark.parametrize(
    "path", ["/sites/nowhere.example/", "/sites/%20/", "/fetches/999/", "/emails/999/", "/effects/999/"]
)
def test_what_is_not_there_is_404_in_a_sentence(operator: Client, path: str) -> None:
    """With the same headers as any page."""
    response = operator.get(path)
    assert response.status_code == 404
    assert "Content-Security-Policy" in response
    assert "<h1>Not found</h1>" in response.text


@pytest.mark.parametrize("path", ["/sites/", "/fetches/", "/emails/"])
@pytest.mark.parametrize("cursor", ["x", "WzFd", "%00", "W10", "9" * 600])
def test_a_cursor_that_no_list_gave_out_is_refused(operator: Client, path: str, cursor: str) -> None:
    """In a sentence that says how to begin again."""
    response = operator.get(f"{path}?after={cursor}")
    assert response.status_code == 400
    assert "leave it out" in response.text


def test_what_has_not_changed_is_not_sent_again(operator: Client) -> None:
    """A request for changes says which version it has."""
    first = operator.get("/unread/", headers=LIVE)
    assert first.status_code == 200
    assert "<html" not in first.text
    answers.forget()
    again = operator.get("/emails/", headers=LIVE)
    same = operator.get("/emails/", headers={**LIVE, "If-None-Match": again["ETag"]})
    assert (same.status_code, same.content) == (304, b"")
    other = operator.get("/emails/", headers={**LIVE, "If-None-Match": first["ETag"]})
    assert (other.status_code, other.content) == (200, again.content)


@pytest.mark.parametrize("path", [*PATHS, "/sites/a.example/", "/fetches/?state=failed&url=*", "/emails/?state=failed"])
def test_what_one_viewer_has_seen_costs_the_next_one_nothing(
    operator: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many viewers there are, nothing is read again within the seconds for which a snapshot is good."""
    site_settings.set_rate("a.example", "1/s")
    other = Client()
    other.force_login(links.operator())
    assert operator.get(path).status_code == 200
    reading = Mock(side_effect=lambda _seconds: nullcontext())
    monkeypatch.setattr(bounded, "reading", reading)
    assert other.get(path).status_code == 200
    assert reading.call_count == 0


def test_what_has_changed_is_sent(operator: Client, forget: Forget) -> None:
    """A page says which version it has; once a row was added, it is not the current one."""
    page, before = operator.get("/fetches/"), operator.get("/fetches/", headers=LIVE)
    assert f'data-etag="{escape(before["ETag"])}"' in page.text
    request_fetch("http://a.example/")
    forget()
    after = operator.get("/fetches/", headers={**LIVE, "If-None-Match": before["ETag"]})
    assert after.status_code == 200
    assert after["ETag"] != before["ETag"]
    assert "a.example" in after.text


def asked(
    path: str, cookie: str, *, method: str = "GET", live: bool = True, query: str = "", has: str = ""
) -> list[dict[str, Any]] | None:
    """Return what is answered in front of Django; None if the request is left to Django."""
    sent: list[dict[str, Any]] = []
    is_left = False

    async def django(*_arguments: object) -> None:
        nonlocal is_left
        is_left = True

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode()), *([(b"x-weir-live", b"1")] * live)]
    headers += [(b"if-none-match", has.encode())] if has else []
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": headers}
    asyncio.run(GivenAgain(django)(scope, None, send))  # type: ignore[arg-type]
    return None if is_left else sent


def test_an_answer_is_given_again_to_whom_it_was_given_and_to_nobody_else(operator: Client) -> None:
    """Without the database; but not without the header, not by another method, and not for another page."""
    answer = operator.get("/unread/", headers=LIVE)
    session = operator.cookies[settings.SESSION_COOKIE_NAME].value
    given = asked("/unread/", session)
    assert given is not None
    assert given[0]["status"] == 200
    assert given[1]["body"] == answer.content
    assert (b"cache-control", b"no-store") in given[0]["headers"]
    same = asked("/unread/", session, has=answer["ETag"])
    assert same is not None
    assert (same[0]["status"], same[1]["body"]) == (304, b"")
    assert asked("/unread/", "another") is None
    assert asked("/unread/", "") is None
    assert asked("/emails/", session) is None
    assert asked("/unread/", session, live=False) is None
    assert asked("/unread/", session, method="POST") is None


def test_an_answer_that_is_good_is_given_to_another_visitor_who_may_see_it(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is not made again; the visitor is known from then on. A visitor who may not see it does not get it."""
    answer = operator.get("/unread/", headers=LIVE)
    visitors = [User.objects.create_user(name) for name in ("kim", "robin")]
    visitors[0].user_permissions.add(Permission.objects.get(codename="view", content_type__app_label="weir_ops"))
    clients = [Client(), Client()]
    for client, visitor in zip(clients, visitors, strict=True):
        client.force_login(visitor)
    monkeypatch.setattr(pages, "rendered", lambda *_arguments: "made again")
    assert clients[0].get("/unread/", headers=LIVE).content == answer.content
    assert asked("/unread/", clients[0].cookies[settings.SESSION_COOKIE_NAME].value) is not None
    assert clients[1].get("/unread/", headers=LIVE).status_code == 403
    assert asked("/unread/", clients[1].cookies[settings.SESSION_COOKIE_NAME].value) is None


def test_an_answer_is_that_of_its_query(operator: Client) -> None:
    """Filters and cursors make other pages."""
    operator.get("/unread/?a=1", headers=LIVE)
    session = operator.cookies[settings.SESSION_COOKIE_NAME].value
    assert asked("/unread/", session, query="a=1") is not None
    assert asked("/unread/", session, query="a=2") is None
    assert asked("/unread/", session) is None


def test_a_visitor_is_trusted_for_a_while_only(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the session is looked at again, however long the answer is good."""
    monkeypatch.setattr(answers, "TRUSTED_S", 0.0)
    operator.get("/unread/", headers=LIVE)
    assert asked("/unread/", operator.cookies[settings.SESSION_COOKIE_NAME].value) is None


def test_few_answers_are_kept(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visitors cannot fill the memory with queries."""
    monkeypatch.setattr(answers, "MOST_KEPT", 1)
    operator.get("/unread/?a=1", headers=LIVE)
    operator.get("/unread/?a=2", headers=LIVE)
    session = operator.cookies[settings.SESSION_COOKIE_NAME].value
    assert asked("/unread/", session, query="a=1") is None
    assert asked("/unread/", session, query="a=2") is not None


def test_large_answers_are_few(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with what a stranger sent may have megabytes."""
    monkeypatch.setattr(answers, "MOST_BYTES", 3 * len(operator.get("/unread/", headers=LIVE).content) - 1)
    for number in range(3):
        operator.get(f"/unread/?a={number}", headers=LIVE)
    session = operator.cookies[settings.SESSION_COOKIE_NAME].value
    given = [asked("/unread/", session, query=f"a={number}") is not None for number in range(3)]
    assert given == [False, True, True]


def test_who_signs_out_is_forgotten_at_once(operator: Client) -> None:
    """The answer is still good, but not for this visitor."""
    operator.get("/unread/", headers=LIVE)
    session = operator.cookies[settings.SESSION_COOKIE_NAME].value
    assert asked("/unread/", session) is not None
    operator.post("/sign-in/out/")
    assert asked("/unread/", session) is None


def test_a_request_that_ends_after_the_sign_out_changes_nothing(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was allowed while the visitor was signed in."""
    session = operator.cookies[settings.SESSION_COOKIE_NAME].value

    def sign_out_meanwhile(*arguments: Any) -> str:
        other_tab = Client()
        other_tab.cookies[settings.SESSION_COOKIE_NAME] = session
        other_tab.post("/sign-in/out/")
        return rendered(*arguments)

    monkeypatch.setattr(pages, "rendered", sign_out_meanwhile)
    assert operator.get("/unread/", headers=LIVE).status_code == 200
    assert asked("/unread/", session) is None


def test_an_answer_is_good_for_a_while_only(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as its snapshot; then Django is asked again, even for a visitor who is trusted."""
    monkeypatch.setattr(answers, "TRUSTED_S", 3_600.0)
    operator.get("/unread/", headers=LIVE)
    session = operator.cookies[settings.SESSION_COOKIE_NAME].value
    wait_for(lambda: asked("/unread/", session) is None, 10, "the end of the answer")


def test_a_user_who_loses_the_permission_is_turned_away(operator: Client) -> None:
    """By the next request that reaches Django."""
    assert operator.get("/").status_code == 200
    links.operator().user_permissions.clear()
    assert Permission.objects.filter(codename="view", content_type__app_label="weir_ops").exists()
    assert operator.get("/").status_code == 403
