"""The bell's views: for users who are signed in, about their own notifications; wrong requests get a 4xx."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.template import Context, Template
from django.test import Client, RequestFactory
from pytest_django import Settings

from tests.integration.bell.conftest import Costs, Tab, refused
from weir.notifications import flush, inbox
from weir.notifications.models import Notification

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]
Tabs = Callable[[], Tab]
GETS, POSTS = ("", "page/"), ("read/", "read-all/")


@pytest.mark.parametrize("path", [*GETS, *POSTS])
def test_nobody_is_told_anything(path: str) -> None:
    """A client that is not signed in gets 401, by either method; not a redirect, which a script could not follow."""
    ask: Any = Client().get if path in GETS else Client().post
    assert refused(ask(f"/bell/{path}")) == (401, "You are signed out.")


@pytest.mark.parametrize("path", [*GETS, *POSTS])
def test_each_view_has_one_method(tab: Tabs, path: str) -> None:
    """Nothing is changed by a GET."""
    client, right = tab().client, "GET" if path in GETS else "POST"
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - {right}:
        response = client.generic(method, f"/bell/{path}")
        assert (response.status_code, response["Allow"]) == (405, right)


@pytest.mark.parametrize("path", POSTS)
def test_other_sites_cannot_mark(tab: Tabs, path: str) -> None:
    """A request without Django's token is refused, though the browser sends the session along."""
    opened = tab()
    told = inbox.notify(opened.user, "news", "Hello")
    client = Client(enforce_csrf_checks=True)
    client.cookies = opened.client.cookies
    response = client.post(f"/bell/{path}", {"ids": [told.pk]}, content_type="application/json")
    assert response.status_code == 403
    assert inbox.unread_count(opened.user) == 1


def test_read_and_read_all(tab: Tabs) -> None:
    """Each says how many it changed, and the number that is true afterwards."""
    opened = tab()
    told = [inbox.notify(opened.user, "news", f"Number {number}") for number in range(3)]
    assert opened.post("read/", {"ids": [told[0].pk]}) == {"changed": 1, "unread": 2}
    assert opened.post("read/", {"ids": [told[0].pk]}) == {"changed": 0, "unread": 2}
    assert opened.post("read/", {"ids": []}) == {"changed": 0, "unread": 2}
    assert opened.post("read-all/") == {"changed": 2, "unread": 0}


def test_ids_of_others_are_ids_of_none(tab: Tabs) -> None:
    """They are not marked, and the answer is the same as for an id that does not exist."""
    mine, other = tab(), tab()
    theirs = inbox.notify(other.user, "news", "Hello")
    inbox.notify(mine.user, "news", "Hello")
    nobodys = mine.post("read/", {"ids": [10**9]})
    assert mine.post("read/", {"ids": [theirs.pk]}) == nobodys == {"changed": 0, "unread": 1}
    assert mine.post("read-all/") == {"changed": 1, "unread": 0}
    assert inbox.unread_count(other.user) == 1
    page = mine.client.get("/bell/page/", {"before": theirs.pk + 1}).json()
    assert [row["title"] for row in page["notifications"]] == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("{", "is not JSON"),
        ("\udcff".encode("utf-8", "surrogateescape"), "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must be like"),
        ("null", "must be like"),
        ('{"ids": 1}', "must be like"),
        ('{"ids": {"1": 1}}', "must be like"),
        ('{"ids": [1], "user": 2}', "must be like"),
        ('{"ids": ["1"]}', "whole number"),
        ('{"ids": [true]}', "whole number"),
        ('{"ids": [1.0]}', "whole number"),
        ('{"ids": [null]}', "whole number"),
        ('{"ids": [0]}', "whole number"),
        ('{"ids": [-1]}', "whole number"),
        ('{"ids": [9223372036854775808]}', "whole number"),
        (f'{{"ids": {list(range(1, 1_002))}}}', "1,000 ids at most"),
    ],
)
def test_a_body_that_is_none(tab: Tabs, body: str | bytes, why: str) -> None:
    """400, which says what is wrong; nothing is marked."""
    opened = tab()
    inbox.notify(opened.user, "news", "Hello")
    response = opened.client.generic("POST", "/bell/read/", body, content_type="application/json")
    status, error = refused(response)
    assert (status, why in error) == (400, True), error
    assert inbox.unread_count(opened.user) == 1


def test_a_form_is_no_json(tab: Tabs) -> None:
    """A page of another site could send a form without asking first."""
    assert refused(tab().client.post("/bell/read/", {"ids": "1"})) == (400, "The body must be application/json.")


@pytest.mark.parametrize(
    "query",
    [
        *({"before": text} for text in ("", "0", "-1", "x", "1.5", "\u0661", "9223372036854775808", "9" * 30)),
        *({"limit": text} for text in ("", "0", "101", "-5", "ten", "1e1")),
        *({"unread": text} for text in ("", "2", "true")),
    ],
)
def test_a_query_that_is_none(tab: Tabs, query: dict[str, str]) -> None:
    """400, which names the parameter."""
    status, error = refused(tab().client.get("/bell/page/", query))
    assert (status, error.startswith(f"{next(iter(query))} must be")) == (400, True)


def test_pages_follow_each_other(tab: Tabs) -> None:
    """The newest first; each says where the next one begins, and the last that there is none."""
    opened = tab()
    for number in range(5):
        inbox.notify(opened.user, "news", f"Number {number}", body="More", url="/somewhere/")
    titles, before = [], ""
    while before is not None:
        query: dict[str, Any] = {"limit": 2, **({"before": before} if before else {})}
        page = opened.client.get("/bell/page/", query).json()
        titles += [row["title"] for row in page["notifications"]]
        before = page["before"]
    assert titles == [f"Number {number}" for number in (4, 3, 2, 1, 0)]
    row = page["notifications"][0]
    assert row == {
        "id": row["id"],
        "created_at": row["created_at"],
        "kind": "news",
        "title": "Number 0",
        "body": "More",
        "url": "/somewhere/",
        "read": False,
    }
    opened.post("read/", {"ids": [row["id"]]})
    unread = opened.client.get("/bell/page/", {"unread": "1"}).json()
    assert (len(unread["notifications"]), unread["unread"], unread["before"]) == (4, 4, None)


def test_nothing_is_kept_by_caches(tab: Tabs) -> None:
    """Neither by the browser's nor by a proxy's."""
    opened = tab()
    for path in GETS:
        assert opened.client.get(f"/bell/{path}")["Cache-Control"] == "private, no-store"


def _shown(user: Any) -> str:
    request = RequestFactory().get("/")
    request.user = user
    return Template("{% load weir_bell %}{% bell %}").render(Context({"request": request}))


def test_the_tag_shows_the_number(tab: Tabs) -> None:
    """Before any script has run; and nothing if no user is signed in."""
    opened = tab()
    inbox.notify(opened.user, "news", "Hello")
    html = _shown(get_user_model().objects.get(pk=opened.user))
    assert 'src="/bell/"' in html
    assert 'unread="1"' in html
    assert " 1 unread</weir-bell>" in html
    assert _shown(type("Nobody", (), {"is_authenticated": False})()).strip() == ""


def test_the_first_poll_of_a_page_is_one_call(tab: Tabs, costs: Costs) -> None:
    """The tag has an ETag, too."""
    opened = tab()
    flush.flush_sealed()
    request = RequestFactory().get("/")
    request.COOKIES = {name: morsel.value for name, morsel in opened.client.cookies.items()}
    request.user = get_user_model().objects.get(pk=opened.user)
    html = Template("{% load weir_bell %}{% bell %}").render(Context({"request": request}))
    opened.etag = html.partition('etag="')[2].partition('"')[0].replace("&quot;", '"')
    with costs() as cost:
        assert opened.poll() == 304
    assert (cost.calls, cost.asked_postgresql) == (1, False)


def test_numbers_of_a_thousand_users_are_one_call(costs: Costs) -> None:
    """A page that shows many users' numbers asks once."""
    inbox.notify_many(range(1, 1_001), "news", "Hello")
    assert inbox.unread_count(1) == 1  # the process knows the keys
    with costs() as cost:
        assert inbox.unread_counts(range(1, 1_001)) == dict.fromkeys(range(1, 1_001), 1)
    assert cost.calls == 1
    assert Notification.objects.count() == 1_000


def test_an_account_is_not_the_user_of_the_same_key(tab: Tabs, settings: Settings) -> None:
    """If users live elsewhere, an operator's account has the same key as another user."""
    opened = tab()
    inbox.notify(opened.user, "news", "Not for the operator")
    settings.WEIR_USER_KEY = "integer"
    for path in GETS:
        assert opened.client.get(f"/bell/{path}").status_code == 404
    for path in POSTS:
        assert opened.client.post(f"/bell/{path}", {}, content_type="application/json").status_code == 404
    assert inbox.unread_count(opened.user) == 1
    request = RequestFactory().get("/")
    request.user = get_user_model().objects.get(pk=opened.user)
    assert not Template("{% load weir_bell %}{% bell %}").render(Context({"request": request})).strip()
