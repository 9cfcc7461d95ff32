"""Tests as a team writes them of an app that uses Weir: by Django's TestCase, in which nothing is ever committed.

Not Weir's own, and not found by pytest: `manage.py test tests.setups.team_tests` runs them, with any settings.
"""

import json
from datetime import timedelta

import pytest
from celery import shared_task
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, TestCase, TransactionTestCase

from weir.api.tokens import actions as tokens
from weir.notifications import inbox
from weir.notifications.models import Notification
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.ratelimit.site_settings import set_rate
from weir.ratelimit.sites import UnknownSite
from weir.ratelimit.throttle import throttle
from weir.workers.audit.acting import of_shell
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.retrying import retry_failed
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
from weir.workers.throttled.decorator import throttled_task
from weir.workers.throttled.models import PostponedTask

URL = "https://a.example/1"


@throttled_task(site="a.example", max_wait=5)
@shared_task(name="team.asked")
def asked() -> None:
    """Ask the site for something."""


class FetchTest(TestCase):
    def setUp(self) -> None:
        assert Site.objects.count() == 0  # that of the test before is gone

    def test_a_fetch_is_asked_for(self) -> None:
        with self.assertNoLogs(level="ERROR"), self.captureOnCommitCallbacks(execute=True):
            fetch = request_fetch(URL, on_done="team.asked")
        assert Fetch.objects.get(pk=fetch.pk).state == FetchState.QUEUED
        assert Site.objects.get(name="a.example").has_backlog

    def test_a_fetch_is_asked_for_once(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            first = request_fetch(URL, dedupe=True)
        assert request_fetch(URL, dedupe=True).pk == first.pk
        assert Fetch.objects.filter(url=URL).count() == 1

    def test_a_fetch_is_taken_back(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            fetch = request_fetch(URL)
        assert cancel(fetch.pk)
        assert Fetch.objects.get(pk=fetch.pk).state == FetchState.CANCELLED
        assert retry_failed(Fetch.objects.filter(pk=fetch.pk)).queued == 0

    def test_a_site_has_its_rate(self) -> None:
        set_rate("a.example", "2/s")
        assert Site.objects.get(name="a.example").interval == timedelta(seconds=0.5)
        request_fetch(URL)
        set_rate("a.example", "1/s", covers_subdomains=True)
        site_settings.pause("a.example", timedelta(hours=1))
        site_settings.resume("a.example")

    def test_what_is_refused_leaves_the_rest_of_the_test(self) -> None:
        with pytest.raises(UnknownSite):
            site_settings.pause("b.example")
        set_rate("a.example", "2/s")

    def test_code_is_throttled(self) -> None:
        with throttle("a.example", max_wait=5):
            pass
        with throttle("a.example", max_wait=5):
            pass

    def test_a_task_is_throttled(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            asked.delay()
        asked()
        assert PostponedTask.objects.count() == 0


class NotificationTest(TestCase):
    def test_a_user_is_told_once(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            first = inbox.notify(7, "kind", "title", dedupe_key="once")
            again = inbox.notify(7, "kind", "title", dedupe_key="once")
        assert first.pk == again.pk
        assert inbox.unread_count(7) == 1

    def test_an_order_is_shipped_once(self) -> None:
        order = Order.objects.create(number="T-1", customer_email="kim@example.com")
        with self.captureOnCommitCallbacks(execute=True):
            shipping.ship(order.pk)
            shipping.ship(order.pk)
        assert order.shipped_email.state == "pending"


class WebTest(TestCase):
    def test_a_program_asks_once(self) -> None:
        secret = tokens.create(of_shell(), "team", ["weir_notifications.add_notification"]).secret
        program = Client(headers={"authorization": f"Bearer {secret}", "idempotency-key": "one"})
        body = json.dumps({"users": [7], "kind": "k", "title": "once"})
        answers = [program.post("/api/v1/notifications", body, content_type="application/json") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert Notification.objects.filter(title="once").count() == 1

    def test_an_operator_sees_the_pages(self) -> None:
        self.client.force_login(User.objects.create_superuser("root"))
        set_rate("a.example", "2/s")
        for path in ("/", "/sites/", "/sites/a.example/", "/admin/weir_ratelimit/site/", "/bell/"):
            assert self.client.get(path).status_code == 200, path


class CommittedTest(TransactionTestCase):
    def test_a_fetch_is_asked_for(self) -> None:
        assert not connection.in_atomic_block
        fetch = request_fetch(URL)
        assert Site.objects.get(name="a.example").has_backlog
        assert Fetch.objects.get(pk=fetch.pk).state == FetchState.QUEUED
