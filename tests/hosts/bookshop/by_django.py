"""Tests by Django's runner, with the context managers of weir.testing."""

import pytest
from django.core import mail
from django.test import TestCase, TransactionTestCase

from weir.notifications import inbox
from weir.ratelimit.models import Site
from weir.testing import captured_fetches, sent_emails, throttled_hosts
from weir.workers.fetches.models import FetchState

from .tasks import BUYER, look_at_stock
from .views import COVER


class OrderTest(TestCase):
    def setUp(self) -> None:
        assert not Site.objects.exists()  # that of the test before is gone
        self.fetches = self.enterContext(captured_fetches())
        self.emails = self.enterContext(sent_emails())

    def test_an_order(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            self.client.post("/order/", {"book": "Emma"})
        assert self.fetches.urls == [COVER]
        assert inbox.unread_count(BUYER) == 1
        assert [email.subject for email in mail.outbox] == ["Your order of Emma"]

    def test_an_order_that_fails(self) -> None:
        with self.captureOnCommitCallbacks(execute=True), pytest.raises(ValueError, match="Nobody"):
            self.client.post("/order/", {"book": "Ulysses"})
        assert (self.fetches.urls, inbox.unread_count(BUYER), mail.outbox) == ([], 0, [])

    def test_a_cover_comes(self) -> None:
        self.client.post("/order/", {"book": "Emma"})
        assert self.fetches.answer(COVER, body="a girl").state == FetchState.DONE
        assert inbox.page(BUYER)[0].title == "a girl"

    def test_a_task_is_throttled(self) -> None:
        hosts = self.enterContext(throttled_hosts())
        look_at_stock("Emma")
        look_at_stock("Emma")
        assert hosts == ["stock.example.com"] * 2


class CommittedOrderTest(TransactionTestCase):
    def setUp(self) -> None:
        self.fetches = self.enterContext(captured_fetches())
        self.emails = self.enterContext(sent_emails())

    def test_a_cover_comes(self) -> None:
        self.client.post("/order/", {"book": "Emma"})
        self.fetches.answer(COVER, body="a girl")
        assert inbox.unread_count(BUYER) == 2
        assert [email.subject for email in self.emails] == ["Your order of Emma", "Your order of a girl"]

    def test_nobody_orders_it(self) -> None:
        with pytest.raises(ValueError, match="Nobody"):
            self.client.post("/order/", {"book": "Ulysses"})
        assert (self.fetches.urls, inbox.unread_count(BUYER), mail.outbox) == ([], 0, [])
