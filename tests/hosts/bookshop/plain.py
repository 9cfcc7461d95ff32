"""Tests by Django alone, with nothing of weir.testing, where tasks run at once."""

from django.test import TestCase

from weir.notifications import inbox
from weir.ratelimit.models import Site
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch

from .tasks import BUYER, cover_came, look_at_stock
from .views import COVER


class PlainTest(TestCase):
    def setUp(self) -> None:
        assert not Site.objects.exists()  # that of the test before is gone

    def test_an_order(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            self.client.post("/order/", {"book": "Emma"})
        assert Fetch.objects.get(is_robots=False).url == COVER
        assert inbox.unread_count(BUYER) == 1

    def test_a_fetch_is_taken_back(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            fetch = request_fetch(COVER, on_done=cover_came)
        assert cancel(fetch.pk)
        assert inbox.page(BUYER)[0].title == "no cover: None"

    def test_what_is_no_url_has_ended(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            request_fetch("no URL", on_done="tests.hosts.bookshop.tasks.cover_came")
        assert inbox.unread_count(BUYER) == 1

    def test_a_task_is_throttled(self) -> None:
        assert look_at_stock.delay("Emma").get() == "Emma is there"
