"""A fetcher stays within what it may use of its host, whatever the sites send, and still fetches everything."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.fakes import sites
from tests.integration.conftest import StartPython
from weir.workers.fetches.models import FetchState

pytestmark = pytest.mark.django_db(transaction=True)

# Fetches the URLs that it is given, all at the same time.
SCRIPT = """
import json, os, resource, time
from django.test import override_settings
override_settings(WEIR_FETCH_ALLOW_NETS=["127.1.0.0/16"]).enable()
override_settings(WEIR_FETCH_MAX_MEMORY=8 * 2**20).enable()
from tests.integration.fetching import reserve_all
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch

def fetch_all(urls):
    request_fetches(urls)
    give_up_at = time.monotonic() + 60
    while Fetch.objects.unfinished().exists():
        assert time.monotonic() < give_up_at, "a fetch did not end"
        if slots := reserve_all():
            fetcher.run_batch(slots)
        time.sleep(0.02)

def ends():
    return sorted(set(Fetch.objects.values_list("state", "attempts", "error")))

fetcher = Fetcher()
"""

LARGE = """
fetch_all(sys.argv[1:2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fetch_all(sys.argv[2:])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"ends": ends(), "kib": after - before}), flush=True)
fetcher.close(3.0)
"""

# All memory is held by others, for longer than an answer has time for; at last for so long that attempts count.
WAITS = """
from weir.conf import settings
from weir.workers.fetches.fetcher.http import session
from weir.workers.fetches.jobs import HeldBytes
override_settings(WEIR_FETCH_DNS_TIMEOUT=0.5, WEIR_FETCH_CONNECT_TIMEOUT=0.5, WEIR_FETCH_TIMEOUT=0.5).enable()
memory = fetcher._session._shared.memory
fetcher._loop.call_soon_threadsafe(memory.hold, HeldBytes(site_id=0), settings.WEIR_FETCH_MAX_MEMORY)

def after(expected):
    give_up_at = time.monotonic() + 30
    while (seen := Fetch.objects.values_list("state", "attempts", "error").get())[:2] != expected or not seen[2]:
        assert time.monotonic() < give_up_at, seen
        if slots := reserve_all():
            fetcher.run_batch(slots)
        time.sleep(0.02)
    return seen

request_fetches(sys.argv[1:], max_attempts=2)
fetcher.run_batch(reserve_all())
given_back = after(("queued", 0))
session.OUTAGE_S = 0.0
print(json.dumps([given_back, after(("queued", 1)), after(("failed", 2))]), flush=True)
fetcher.close(3.0)
"""

MANY = """
fetch_all(sys.argv[1:2])
in_use = len(os.listdir("/proc/self/fd"))
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 15, hard))
fetch_all(sys.argv[2:])
print(json.dumps({"ends": ends()}), flush=True)
fetcher.close(3.0)
"""


@pytest.fixture
def many_sites(tmp_path: Path) -> Iterator[sites.Sites]:
    """Twenty fake sites."""
    with sites.running(20, tmp_path) as running:
        yield running


def test_many_large_bodies_at_once_need_no_more_memory_than_is_allowed(
    many_sites: sites.Sites, start_python: StartPython
) -> None:
    """20 bodies of 4 MiB, with 8 MiB allowed for all of them."""
    urls = [many_sites.url(number, f"/big/4194304/{number}") for number in range(20)]
    output, _ = start_python(SCRIPT + LARGE, *urls).communicate(timeout=90)
    told = json.loads(output)
    assert told["ends"] == [["done", 1, ""]]
    assert told["kib"] < 80 * 1024


def test_an_answer_that_never_gets_memory_is_given_back_for_an_hour_and_then_fails(
    many_sites: sites.Sites, start_python: StartPython
) -> None:
    """Within its lease: the fetcher does not count as dead. It is our fault, and ends all the same."""
    output, _ = start_python(SCRIPT + WAITS, many_sites.url(0, "/big/4194304/1")).communicate(timeout=90)
    said = "no complete answer within its lease: others had all memory (WEIR_FETCH_MAX_MEMORY)"
    given_back, again, failed = json.loads(output)
    assert given_back == [FetchState.QUEUED, 0, said]
    assert again == [FetchState.QUEUED, 1, said]
    assert failed == [FetchState.FAILED, 2, f"{said} (attempt 2 of 2)"]


def test_more_sites_than_descriptors_are_all_fetched(many_sites: sites.Sites, start_python: StartPython) -> None:
    """A connection that is kept for its site's next request is closed if descriptors are short."""
    urls = [many_sites.url(number, "/ok") for number in range(20)]
    output, _ = start_python(SCRIPT + MANY, *urls).communicate(timeout=90)
    assert json.loads(output)["ends"] == [["done", 1, ""]]
