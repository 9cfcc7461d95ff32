"""Each datetime that comes from outside comes back from PostgreSQL, or is refused before anything is stored."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.moments import ACCEPTED, REFUSED
from weir.notifications.inbox import notify, notify_many
from weir.notifications.models import Notification
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.mail.outbox import send_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

URL = "https://site.example/"
# The functions that take a datetime from outside.
DOORS: dict[str, Callable[[datetime], Any]] = {
    "request_fetch": lambda moment: request_fetch(URL, not_before=moment),
    "request_fetches": lambda moment: request_fetches([URL, URL], not_before=moment),
    "send_once": lambda moment: send_once("order.shipped", "1", to="kim@example.com", not_before=moment),
    "send_once until": lambda moment: send_once("order.shipped", "1", to="kim@example.com", expires_at=moment),
    "notify": lambda moment: notify(1, "kind", "title", expires_at=moment),
    "notify_many": lambda moment: notify_many([1, 2], "kind", "title", expires_at=moment),
    "back_off": lambda moment: site_settings.back_off("site.example", until=moment),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_could_not_be_read_again_is_not_stored(door: str) -> None:
    """A list with such a row in it would fail for every user, until the row is deleted."""
    for moment, sentence in REFUSED.values():
        with pytest.raises(ValueError, match=sentence):
            DOORS[door](moment)
    assert not any(model.objects.exists() for model in (Fetch, Site, Email, Notification))


def test_what_is_accepted_comes_back() -> None:
    """From the database, from the call, and in each list."""
    fetches = [request_fetch(URL, not_before=moment) for moment in ACCEPTED]
    assert [fetch.not_before for fetch in fetches] == list(ACCEPTED)
    assert list(Fetch.objects.order_by("pk").values_list("not_before", flat=True)) == list(ACCEPTED)
