"""Webhooks: each event is asked for once, sent until it is received, and no endpoint fills the queue."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from weir.testing import captured_fetches
from weir.testing.answers import end
from weir.workers.events import log
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.jobs import Answer, Failure, Job
from weir.workers.fetches.maintenance.purge import purge
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.retrying import retry_failed
from weir.workers.webhooks import delivering, endpoints, listing
from weir.workers.webhooks.models import Endpoint

pytestmark = pytest.mark.django_db(transaction=True)

HOOK = "https://receiver.example/weir"
NAMED = "HOOK"
OTHER = "OTHER"  # the name of another secret
KEY = "whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="


@pytest.fixture(autouse=True)
def kept(settings: Settings) -> Iterator[None]:
    """Keep events, and keep fetches from being sent."""
    settings.WEIR_EVENT_RETENTION = 86_400.0
    settings.WEIR_SECRETS = {NAMED: KEY}
    log.keep()
    with captured_fetches():
        yield


def endpoint(*types: str, name: str = "orders") -> Endpoint:
    log.append()
    return endpoints.store(name, HOOK, secret=NAMED, types=types)


def end_some(number: int = 1) -> list[int]:
    """End fetches; returns their ids."""
    fetches = request_fetches(f"https://a.example/{place}" for place in range(number))
    for fetch in fetches:
        cancel(fetch.pk)
    return [fetch.pk for fetch in fetches]


def sent() -> list[dict[str, Any]]:
    """Return the messages of all webhooks, in their order, each with its id."""
    found = Fetch.objects.exclude(endpoint_id=None).order_by("pk")
    return [
        {"webhook-id": (each.request_headers or {})["webhook-id"], **json.loads(each.request_body or b"")}
        for each in found
    ]


def answer(fetch: Fetch, status: int) -> Fetch:
    """Answer a webhook; returns it as it is stored."""
    return end(
        fetch,
        lambda job: Answer(job=job, status_code=status, headers=(), body=b"thanks", lateness_ms=0.0, elapsed_ms=0.0),
    )


def webhooks() -> list[Fetch]:
    return list(Fetch.objects.exclude(endpoint_id=None).order_by("pk"))


def test_each_event_is_asked_for_once_in_its_order() -> None:
    """What ended before the endpoint was made is not; a webhook's own end is no event."""
    end_some()
    to = endpoint()
    assert not delivering.has_work()
    ended = end_some(3)
    assert delivering.has_work()
    assert delivering.deliver() == 3
    assert (delivering.has_work(), delivering.deliver()) == (False, 0)
    events, _ = log.events_after("", 100)
    assert [(each["webhook-id"], each["data"]["id"]) for each in sent()] == [
        (str(event.pk), event.subject_id) for event in events[1:]
    ]
    assert [each["data"]["id"] for each in sent()] == ended
    assert {answer(each, 204).state for each in webhooks()} == {FetchState.DONE}
    assert (delivering.has_work(), delivering.deliver()) == (False, 0)
    assert (listing.endpoint_with(to.pk).behind, listing.endpoint_with(to.pk).unfinished) == (0, 0)


def test_a_message_says_what_the_api_says_and_no_more() -> None:
    """Of a fetch that was retried since, it says how that ended which the event is about."""
    endpoint()
    wanted = request_fetch("https://a.example/page")
    Fetch.objects.update(reference="order-7")
    done = end(wanted, lambda job: Failure(job=job, error="no route", permanent=True))
    delivering.deliver()
    [message] = sent()
    at = done.finished_at.isoformat() if done.finished_at else ""
    assert (message["type"], message["timestamp"]) == ("fetch.failed", at)
    assert message["data"] == {
        "id": wanted.pk,
        "state": "failed",
        "reference": "order-7",
        "finished_at": at,
        "url": "https://a.example/page",
        "status_code": None,
        "error": "no route",
        "incomplete": "",
        "attempts": 1,
    }
    again = retry_failed(Fetch.objects.filter(pk=wanted.pk))
    assert again.queued == 1
    end(wanted, lambda job: Failure(job=job, error="no route", permanent=True))
    Fetch.objects.filter(pk=wanted.pk).update(finished_at=Now(), url="https://a.example/other")
    delivering.deliver()
    assert [each["data"]["url"] for each in sent()] == ["https://a.example/page", None]
    hook, _ = webhooks()
    assert (hook.method, hook.max_redirects, hook.idempotency_key) == ("POST", 0, None)
    assert KEY not in json.dumps(hook.request_headers)


def test_only_types_that_were_asked_for_are_sent() -> None:
    to = endpoint("fetch.failed")
    end_some(3)
    request_fetch("https://a.example:1/")  # a port that is not allowed
    assert delivering.deliver() == 1
    assert [each["type"] for each in sent()] == ["fetch.failed"]
    assert (delivering.has_work(), listing.endpoint_with(to.pk).behind) == (False, 0)


@pytest.mark.parametrize("status", [200, 301, 400, 401, 404, 429, 500])
def test_all_but_a_success_is_sent_again(status: int) -> None:
    """A redirect is not followed. Nothing of what the receiver says is stored but its headers."""
    to = endpoint()
    end_some()
    delivering.deliver()
    [hook] = webhooks()
    after = answer(hook, status)
    is_received = status == 200
    assert after.state == (FetchState.DONE if is_received else FetchState.QUEUED)
    assert (after.content, after.error) == (None, "" if is_received else f"the site answered {status}")
    listed = listing.endpoint_with(to.pk)
    assert (listed.state, listed.unfinished) == (("delivering", 0) if is_received else ("failing", 1))


def test_a_failure_that_would_be_final_is_not() -> None:
    """Such as an address that is forbidden: the receiver's name may lead elsewhere tomorrow."""
    endpoint()
    end_some()
    delivering.deliver()
    [hook] = webhooks()
    assert end(hook, lambda job: Failure(job=job, error="forbidden", permanent=True)).state == FetchState.QUEUED
    Fetch.objects.filter(pk=hook.pk).update(attempts=hook.max_attempts - 1)
    last = end(hook, lambda job: Failure(job=job, error="forbidden", permanent=True))
    assert (last.state, last.error) == (FetchState.FAILED, "forbidden (attempt 108 of 108)")


def test_an_endpoint_that_fails_keeps_its_events_and_not_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cursor waits. Another endpoint's does not."""
    monkeypatch.setattr(delivering, "MOST_UNFINISHED", 2)
    slow = endpoint()
    end_some(5)
    assert delivering.deliver() == 2
    assert not delivering.has_work()
    assert listing.endpoint_with(slow.pk).behind == 3
    quick = endpoint(name="quick")
    end_some(1)
    assert delivering.deliver() == 1
    assert {hook.endpoint_id for hook in webhooks()} == {slow.pk, quick.pk}
    answer(webhooks()[0], 200)
    assert delivering.has_work()
    assert delivering.deliver() == 1


def test_an_endpoint_that_is_gone_is_paused_and_loses_nothing() -> None:
    """After 410, nothing is sent until it is resumed; then all of it is."""
    to = endpoint()
    end_some(3)
    delivering.deliver()
    first, second, _ = webhooks()
    answer(first, 410)
    Fetch.objects.filter(pk=first.pk).update(started_at=Now())
    assert delivering.has_work()
    delivering.deliver()
    listed = listing.endpoint_with(to.pk)
    assert (listed.state, listed.error) == ("paused", "it answered 410: it wants no more webhooks")
    assert not Fetch.objects.filter(state=FetchState.QUEUED, not_before__lte=Now()).exists()
    answer(second, 503)  # it was in flight
    assert delivering.has_work()
    delivering.deliver()
    end_some(1)
    assert (delivering.has_work(), delivering.deliver()) == (False, 0)
    with transaction.atomic():
        endpoints.resume(to)
    assert Fetch.objects.filter(endpoint_id=to.pk, state=FetchState.QUEUED, not_before__lte=Now()).count() == 3
    assert delivering.deliver() == 1
    assert not Endpoint.objects.get().paused_at


def test_what_waits_is_sent_at_once_when_the_receiver_is_back() -> None:
    """Nobody waits an hour for it. What is refused each time is not sent more often for that reason."""
    to = endpoint()
    end_some(3)
    delivering.deliver()
    for hook in webhooks():
        answer(hook, 500)
        Fetch.objects.filter(pk=hook.pk).update(attempts=50, not_before=Now() + delivering.WOKEN_EVERY * 4)
    Endpoint.objects.update(woken_at=Now() - delivering.WOKEN_EVERY * 2)
    assert not delivering.has_work()
    first, second, _ = webhooks()
    answer(first, 200)
    assert delivering.has_work()
    delivering.deliver()
    assert Fetch.objects.filter(endpoint_id=to.pk, state=FetchState.QUEUED, not_before__lte=Now()).count() == 2
    Fetch.objects.filter(pk=second.pk).update(not_before=Now() + delivering.WOKEN_EVERY * 4)
    assert not delivering.has_work()


def test_events_that_were_deleted_undelivered_are_reported(settings: Settings) -> None:
    """It goes on with what there is."""
    to = endpoint()
    settings.WEIR_EVENT_RETENTION = 0.0
    log.keep()
    settings.WEIR_EVENT_RETENTION = 86_400.0
    log.keep()
    ended = end_some(1)
    assert delivering.has_work()
    delivering.deliver()
    delivering.deliver()
    assert [each["data"]["id"] for each in sent()] == ended
    assert listing.endpoint_with(to.pk).row.missed_at


def test_received_webhooks_are_purged_soon_and_failed_ones_are_not(settings: Settings) -> None:
    """The bodies of their requests go with them; the history counts them as long as slots are kept."""
    endpoint()
    end_some(3)
    delivering.deliver()
    received, failed, _ = webhooks()
    answer(received, 200)
    Fetch.objects.filter(pk=failed.pk).update(state=FetchState.FAILED, error="x", finished_at=Now())
    settings.WEIR_SLOT_RETENTION = 3 * 3_600.0
    Fetch.objects.exclude(endpoint_id=None).update(finished_at=F("finished_at") - 2 * timedelta(hours=1))
    purge()
    assert received.pk in {hook.pk for hook in webhooks()}
    settings.WEIR_SLOT_RETENTION = 3_600.0
    purge()
    assert received.pk not in {hook.pk for hook in webhooks()}
    assert len(webhooks()) == 2


def test_a_removed_endpoint_gets_nothing_more() -> None:
    to = endpoint()
    end_some(2)
    delivering.deliver()
    with transaction.atomic():
        endpoints.remove(to)
    assert {hook.state for hook in webhooks()} == {FetchState.CANCELLED}
    end_some(1)
    assert (delivering.has_work(), delivering.deliver()) == (False, 0)


def test_what_is_in_flight_to_a_removed_endpoint_is_not_tried_again() -> None:
    """Its fetcher queues it again when the endpoint is gone. Of another endpoint, nothing is cancelled."""
    to, other = endpoint(), endpoint(name="other")
    end_some(1)
    delivering.deliver()

    def refused(job: Job) -> Answer:
        with transaction.atomic():
            endpoints.remove(to)
        return Answer(job=job, status_code=500, headers=(), body=b"", lateness_ms=0.0, elapsed_ms=0.0)

    [hook] = Fetch.objects.filter(endpoint_id=to.pk)
    removed, kept = to.pk, other.pk
    assert end(hook, refused).state == FetchState.QUEUED
    assert delivering.has_work()
    delivering.deliver()
    states = dict(Fetch.objects.exclude(endpoint_id=None).values_list("endpoint_id", "state"))
    assert states == {removed: FetchState.CANCELLED, kept: FetchState.QUEUED}
    Endpoint.objects.all().delete()
    assert delivering.has_work(), "also if no endpoint is left"
    delivering.deliver()
    assert {hook.state for hook in webhooks()} == {FetchState.CANCELLED}
    assert not delivering.has_work()


def test_a_changed_endpoint_gets_what_its_old_url_has_not_received(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and with the same ids. Or an old URL that fails would keep all events back for three days."""
    monkeypatch.setattr(delivering, "MOST_UNFINISHED", 2)
    to = endpoint()
    end_some(3)
    delivering.deliver()
    first, second = webhooks()
    answer(second, 503)
    before = sent()

    def moved(job: Job) -> Answer:
        with transaction.atomic():
            endpoints.store("orders", f"{HOOK}/2", secret=OTHER)
        return Answer(job=job, status_code=410, headers=(), body=b"", lateness_ms=0.0, elapsed_ms=0.0)

    end(first, moved)
    assert delivering.has_work()
    delivering.deliver()
    assert {hook.state for hook in Fetch.objects.filter(pk__in=[first.pk, second.pk])} == {FetchState.CANCELLED}
    queued = Fetch.objects.filter(endpoint_id=to.pk, state=FetchState.QUEUED, not_before__lte=Now())
    assert {(hook.url, hook.hop_url, (hook.request_headers or {})["webhook-signature"]) for hook in queued} == {
        (f"{HOOK}/2", f"{HOOK}/2", f"{{webhook:{OTHER}}}")
    }
    by_id = sorted(sent(), key=lambda each: int(each["webhook-id"]))
    assert by_id == sorted(before * 2, key=lambda each: int(each["webhook-id"]))
    assert listing.endpoint_with(to.pk).state == "delivering", "what the old URL answered says nothing of the new one"
    assert (delivering.has_work(), listing.endpoint_with(to.pk).behind) == (False, 1)


def test_a_paused_endpoint_that_is_changed_stays_paused() -> None:
    to = endpoint()
    end_some(1)
    delivering.deliver()
    with transaction.atomic():
        endpoints.pause(to)
        endpoints.store("orders", f"{HOOK}/2", secret=NAMED)
    queued = Fetch.objects.filter(endpoint_id=to.pk, state=FetchState.QUEUED)
    assert [hook.url for hook in queued] == [f"{HOOK}/2"]
    assert not queued.filter(not_before__lte=Now()).exists()
    with transaction.atomic():
        endpoints.resume(to)
    assert queued.filter(not_before__lte=Now()).count() == 1


def test_what_cannot_be_used_is_refused() -> None:
    for wrong in ({"url": "ftp://a.example/"}, {"url": "http://127.0.0.1/"}, {"secret": "a b"}, {"types": ["fetch"]}):
        given: dict[str, Any] = {"url": HOOK, "secret": NAMED, "types": [], **wrong}
        with pytest.raises(ValueError, match=r".+"):
            endpoints.store("orders", given["url"], secret=given["secret"], types=given["types"])
    assert not Endpoint.objects.exists()
