"""Links to lists that no list gave out: none of them is an error of this process."""

import re
from html import unescape

import pytest
from django.test import Client

from project.logins import links
from weir.workers import cursors
from weir.workers.fetches.enqueue import request_fetches

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator() -> Client:
    """Return a browser in which the operator is signed in."""
    client = Client()
    client.force_login(links.operator())
    return client


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/emails/?to=a&", ["\ud800", 1]),
        ("/emails/?to=a&", ["\0", 1]),
        ("/emails/?", ["0001-01-01T00:00:00+23:59", 1]),
        ("/emails/?", ["9999-12-31T23:59:59-23:59", 1]),
        ("/fetches/?", ["newest", True]),
        ("/sites/?sort=refusals&", ["refusals", "a.example", True, 0, 1]),
    ],
)
def test_a_cursor_of_what_no_row_has_is_refused(operator: Client, path: str, values: list[object]) -> None:
    """It is neither an error of this process, nor reported as a failure of PostgreSQL."""
    response = operator.get(f"{path}after={cursors.encode(values)}")
    assert response.status_code == 400
    assert "leave it out" in response.text


@pytest.mark.parametrize("path", ["/emails/kinds/a%00b/pause/", "/emails/kinds/a%00b/resume/", "/sites/a%00b/pause/"])
def test_a_name_that_nothing_can_have_is_not_found(operator: Client, path: str) -> None:
    assert [operator.get(path).status_code, operator.post(path, {"why": "x"}).status_code] == [404, 404]


@pytest.mark.parametrize(
    ("path", "names"),
    [("/sites/", ["search"]), ("/fetches/", ["site", "error", "url"]), ("/emails/", ["to"])],
)
def test_a_long_filter_is_no_error(operator: Client, path: str, names: list[str]) -> None:
    """As long as the form allows, and longer."""
    for name in names:
        assert [operator.get(path, {name: "a" * length}).status_code for length in (500, 9_000)] == [200, 200]


def test_the_link_to_the_next_page_works_whatever_the_rows_are(operator: Client) -> None:
    """Letters outside ASCII make long cursors."""
    request_fetches([f"https://a.example/{'🌊' * 100}{number}" for number in range(101)])
    first = operator.get("/fetches/", {"url": "https://a.example/*"})
    found = re.search(r'href="([^"]+)" rel="next"', first.text)
    assert found
    following = operator.get(f"/fetches/{unescape(found[1])}")
    assert following.status_code == 200
    assert following.text.count("<tr><th") == 2  # the head, and one fetch
