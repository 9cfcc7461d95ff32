"""Tests by pytest, with the fixtures of Weir's plugin."""

from typing import Any

import pytest
from django.core import mail
from django.test import Client

from weir.notifications import inbox
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.ratelimit.slots import SlotTooFar
from weir.ratelimit.throttle import throttle
from weir.testing import CapturedFetches
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.mail.models import Email

from .tasks import BUYER, cover_came, look_at_stock
from .views import COVER


@pytest.fixture
def commit(django_capture_on_commit_callbacks: Any) -> Any:
    """Return what stands for a commit in a test whose transaction is rolled back."""
    return lambda: django_capture_on_commit_callbacks(execute=True)


def order(client: Client, book: str = "Emma") -> None:
    assert client.post("/order/", {"book": book}).status_code == 200


@pytest.mark.django_db
def test_nothing_is_left_by_another_test() -> None:
    """A rolled-back test's site is gone, too, though its view had a transaction of its own."""
    assert not Site.objects.exists()


def test_an_order(
    client: Client, commit: Any, captured_fetches: CapturedFetches, sent_emails: list[mail.EmailMessage]
) -> None:
    with commit():
        order(client)
    assert captured_fetches.urls == [COVER]
    assert inbox.unread_count(BUYER) == 1
    [email] = sent_emails
    assert sent_emails is mail.outbox
    assert (email.subject, email.to) == ("Your order of Emma", ["kim@example.com"])
    assert isinstance(email, mail.EmailMultiAlternatives)
    assert "<p>Emma will be" in str(email.alternatives[0][0])
    assert Email.objects.get().state == "sent"


@pytest.mark.django_db(transaction=True)
def test_an_order_that_is_committed(
    client: Client, captured_fetches: CapturedFetches, sent_emails: list[mail.EmailMessage]
) -> None:
    order(client)
    assert captured_fetches.urls == [COVER]
    assert inbox.unread_count(BUYER) == 1
    assert [email.subject for email in sent_emails] == ["Your order of Emma"]
    assert captured_fetches.answer(COVER, body="a girl").state == FetchState.DONE
    assert inbox.page(BUYER)[0].title == "a girl"
    assert [email.subject for email in sent_emails] == ["Your order of Emma", "Your order of a girl"]


def test_an_order_that_fails(
    client: Client, commit: Any, captured_fetches: CapturedFetches, sent_emails: list[mail.EmailMessage]
) -> None:
    with pytest.raises(ValueError, match="Nobody"), commit():
        order(client, "Ulysses")
    assert not captured_fetches.urls
    assert not sent_emails
    assert inbox.unread_count(BUYER) == 0


def test_a_cover_comes(
    client: Client, commit: Any, captured_fetches: CapturedFetches, sent_emails: list[mail.EmailMessage]
) -> None:
    with commit():
        order(client)
    fetch = captured_fetches.answer(COVER, 200, b"a girl", headers={"Content-Type": "text/plain"})
    assert (fetch.state, fetch.status_code, fetch.content) == (FetchState.DONE, 200, b"a girl")
    assert fetch.headers == [["Content-Type", "text/plain"]]
    assert fetch.on_done_called_at is not None
    assert inbox.page(BUYER)[0].title == "a girl"
    assert inbox.unread_count(BUYER) == 2
    assert len(sent_emails) == 2  # what the task left to its commit was done


def test_no_cover_comes(client: Client, commit: Any, captured_fetches: CapturedFetches) -> None:
    with commit():
        order(client)
    with commit():
        order(client)
    assert captured_fetches.fail(COVER, "no route to host").state == FetchState.FAILED
    assert inbox.page(BUYER)[0].title == "no cover: no route to host"
    assert captured_fetches.answer(captured_fetches[1], 404).state == FetchState.DONE
    assert inbox.page(BUYER)[0].title == "no cover: 404"


def test_a_task_that_raises_fails_the_test(client: Client, commit: Any, captured_fetches: CapturedFetches) -> None:
    with commit():
        order(client)
    with pytest.raises(UnicodeDecodeError):
        captured_fetches.answer(COVER, body="Bücher")


def test_a_task_is_throttled(throttled_hosts: list[str]) -> None:
    site_settings.set_rate("stock.example.com", "1/h")
    assert [look_at_stock("Emma"), look_at_stock("Emma")] == ["Emma is there"] * 2
    assert throttled_hosts == ["stock.example.com"] * 2
    site_settings.pause("stock.example.com")
    with pytest.raises(SlotTooFar):
        look_at_stock("Emma")
    with pytest.raises(SlotTooFar), throttle("stock.example.com"):
        pass


def test_a_fetch_is_taken_back(commit: Any, captured_fetches: CapturedFetches) -> None:
    with commit():
        fetch = request_fetch(COVER, on_done=cover_came)
    assert cancel(fetch.pk)
    assert inbox.page(BUYER)[0].title == "no cover: None"
    assert Fetch.objects.get(pk=fetch.pk).state == FetchState.CANCELLED
    assert captured_fetches[0] == fetch
