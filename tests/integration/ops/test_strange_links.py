"""Cursors that nobody got from a list: each is refused in a sentence."""

import pytest
from django.test import Client

from project.logins import links
from workers import cursors

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
    """It is neither an error of this process, nor told as a failure of PostgreSQL."""
    response = operator.get(f"{path}after={cursors.encode(values)}")
    assert response.status_code == 400
    assert "leave it out" in response.text
