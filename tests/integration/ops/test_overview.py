"""The first page stays small, however many processes there are."""

from datetime import timedelta

import pytest
from django.test import Client

from project.logins import links
from tests.integration.conftest import database_now
from weir.ops.views.overview import MOST_PROCESSES
from weir.workers.processes.models import Process

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator() -> Client:
    """Return a browser in which the operator is signed in."""
    client = Client()
    client.force_login(links.operator())
    return client


def test_of_many_processes_those_with_a_problem_have_a_row(operator: Client) -> None:
    """The others are counted by kind; a silent one is never among them while there is room."""
    for number in range(MOST_PROCESSES + 6):
        Process.objects.create(kind="fetcher", name=f"fetcher.{number:03}@host", host="host", pid=number)
    silent_since = database_now() - timedelta(seconds=30)
    Process.objects.create(kind="ticks", name="ticks@host", host="host", pid=999, turned_at=silent_since)

    page = operator.get("/").text

    assert page.count("@host</th>") == MOST_PROCESSES
    assert page.index("ticks@host</th>") < page.index("fetcher.000@host</th>")
    assert "And 7 more: 7 fetcher alive." in page


def test_each_of_a_few_processes_has_a_row(operator: Client) -> None:
    """And nothing is said about others."""
    for number in range(MOST_PROCESSES):
        Process.objects.create(kind="fetcher", name=f"fetcher.{number:03}@host", host="host", pid=number)
    page = operator.get("/").text
    assert page.count("@host</th>") == MOST_PROCESSES
    assert "more:" not in page
