"""A program asks for URLs, and sees what became of them: over a real web process."""

from tests.acceptance import web_process
from tests.acceptance.api import web
from tests.acceptance.conftest import Cluster
from weir.workers.fetches.models import Fetch


def test_a_program_asks_for_urls_and_repeats_itself(cluster: Cluster) -> None:
    """A request with an Idempotency-Key is done once, and answered the same."""
    url = web_process.start(cluster, "web")
    secret = web.token(cluster, "weir_fetches.add_fetch", "weir_fetches.view_fetch")
    wanted = {"urls": ["https://example.com/a", "nonsense"]}
    key = {"Idempotency-Key": "order-17"}

    first, again = (web.call(url, secret, "POST", "/fetches", wanted, headers=key) for _ in range(2))
    assert (first.status, again.status, again.body) == (202, 202, first.body), first.body
    assert Fetch.objects.filter(is_robots=False).count() == 2
    assert [fetch["state"] for fetch in first.data["fetches"]] == ["queued", "failed"]

    other = web.call(url, secret, "POST", "/fetches", {"urls": ["https://example.com/b"]}, headers=key)
    assert (other.status, other.data["type"]) == (422, "/api/problems/other-request")

    listed = web.call(url, secret, "GET", "/fetches?state=failed")
    assert [fetch["url"] for fetch in listed.data["fetches"]] == ["nonsense"]
    one = web.call(url, secret, "GET", f"/fetches/{first.data['fetches'][0]['id']}")
    assert (one.status, one.data["state"]) == (200, "queued")
    assert int(one.headers["retry-after"]) >= 1
    refused = web.call(url, "weir_" + "x" * 43, "GET", "/fetches")
    assert (refused.status, refused.headers["content-type"]) == (401, "application/problem+json")
