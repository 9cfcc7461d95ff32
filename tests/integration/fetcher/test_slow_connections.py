"""Sites whose connections take long to open, or never do: what that costs their fetches, and others."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from pytest_django import Settings

from demo.fakes import sites
from tests.integration.conftest import Eventually
from tests.integration.fetching import fetch_until, fetched
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = pytest.mark.django_db(transaction=True)

UNANSWERED = "127.1.99.1"  # an address of its own: other tests connect to those of the fake sites


@contextmanager
def port_that_never_answers() -> Iterator[int]:
    """Listen on a port, and accept nothing: once its queue is full, the kernel drops further connections."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((UNANSWERED, 0))
        listener.listen(0)
        for _ in range(2):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_a_slow_name_server_costs_no_attempt(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes after the slot; the fetch goes back, and is requested in another one."""
    address = running_sites.hosts[0]

    def slowly(*_arguments: object, **_options: object) -> list[tuple[object, ...]]:
        time.sleep(0.9)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    site_settings.set_rate(f"slow.example:{running_sites.port}", "2/s")
    fetch = fetched(request_fetch(f"http://slow.example:{running_sites.port}/ok", max_attempts=1), fetcher)
    assert (fetch.state, fetch.attempts) == (FetchState.DONE, 1), fetch.error


def test_a_message_does_not_wait_for_a_host_that_does_not_answer(settings: Settings, eventually: Eventually) -> None:
    """Its thread is free when the slot is over; the fetcher itself goes on to connect, and counts the attempt."""
    settings.WEIR_FETCH_ALLOW_NETS = ["127.1.0.0/16"]
    settings.WEIR_FETCH_CONNECT_TIMEOUT = 1.5
    fetcher = Fetcher()
    try:
        with port_that_never_answers() as port:
            site_settings.set_rate(f"{UNANSWERED}:{port}", "10/s")
            fetch = request_fetch(f"http://{UNANSWERED}:{port}/", max_attempts=1)
            running = Fetch.objects.filter(pk=fetch.pk, state=FetchState.RUNNING)
            fetch_until(fetcher, running.exists, "a message that has ended before its fetch")
            eventually(Fetch.objects.filter(pk=fetch.pk, state=FetchState.FAILED).exists, "the end of the fetch")
        assert "no connection within 1.5 s" in Fetch.objects.get(pk=fetch.pk).error
    finally:
        fetcher.close(1.0)
