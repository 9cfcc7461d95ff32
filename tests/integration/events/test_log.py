"""The event log: each end once, in an order in which a reader misses none."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from weir.testing import captured_fetches
from weir.workers.events import log
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://a.example/"


@pytest.fixture(autouse=True)
def kept(settings: Settings) -> Iterator[None]:
    """Keep events, and keep fetches from being sent."""
    settings.WEIR_EVENT_RETENTION = 86_400.0
    log.keep()
    with captured_fetches():
        yield


def read(cursor: str = "", limit: int = 100) -> tuple[list[tuple[str, int]], str]:
    """Return the types and subjects of what is in the log, and the cursor after it."""
    log.append()
    events, after = log.events_after(cursor, limit)
    return [(event.type, event.subject_id) for event in events], after


def test_it_works() -> None:
    wanted = request_fetch(URL)
    assert read() == ([], log.newest())
    cancel(wanted.pk)
    found, after = read()
    assert found == [("fetch.cancelled", wanted.pk)]
    assert read(after) == ([], after)
