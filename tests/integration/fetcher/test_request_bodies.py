"""The bodies of requests, in the memory of a fetcher."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from tests.integration.conftest import claim
from weir.ratelimit import site_settings
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher import request_bodies
from weir.workers.fetches.fetcher.request_bodies import NO_ROOM, RequestBodies
from weir.workers.fetches.jobs import Snoozed
from weir.workers.fetches.models import Fetch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


def test_bodies_have_a_part_of_the_memory(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which a site leaves some to others; what has no room waits, without an attempt; no body needs no room."""
    settings.WEIR_FETCH_MAX_MEMORY = 80
    monkeypatch.setattr(request_bodies, "SMALL", 3)
    wanted = [
        ("a", b"123456"),
        ("a", None),
        ("a", b"78"),
        ("a", b"9012345"),
        ("b", b"123456"),
        ("b", b"78901"),
        ("c", b"1"),
    ]
    for site in "abc":
        site_settings.set_rate(f"{site}.example", "10/s", grace=timedelta(seconds=10))  # a claim may come late
    for site, body in wanted:
        method = "GET" if body is None else "POST"
        request_fetch(f"https://{site}.example/", method=method, body=body, repeatable=True)
    assert dispatch() == len(wanted)
    jobs = sorted(claim([*Fetch.objects.values_list("pk", flat=True)]), key=lambda job: job.fetch_id)
    bodies = RequestBodies()
    admitted, turned_away = bodies.admit(jobs)
    assert [job.body and job.body.content for job in admitted] == [b"123456", None, b"78", b"123456", b"1"]
    assert turned_away == [Snoozed(job=job, reason=NO_ROOM) for job in (jobs[3], jobs[5])]
    for job in admitted:
        bodies.free(job)
    assert bodies.admit(jobs)[1] == turned_away


def test_a_body_for_which_there_is_never_room_goes_alone(settings: Settings) -> None:
    settings.WEIR_FETCH_MAX_MEMORY = 4
    site_settings.set_rate("site.example", "10/s", grace=timedelta(seconds=10))
    for _ in range(2):
        request_fetch("https://site.example/", method="POST", body=b"123", repeatable=True)
    assert dispatch() == 2
    bodies = RequestBodies()
    admitted, turned_away = bodies.admit(claim([*Fetch.objects.values_list("pk", flat=True)]))
    assert (len(admitted), len(turned_away)) == (1, 1)
