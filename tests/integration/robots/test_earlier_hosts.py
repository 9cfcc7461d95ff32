"""Fetches that an earlier version queued, for a host that no URL may have any more, end like others."""

import pytest

from tests.integration.robots.conftest import all_due, answered, claimed, robots_fetches
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches import strays
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile
from weir.workers.fetches.robots.files import RobotsFiles
from weir.workers.fetches.robots.gate import admit
from weir.workers.fetches.targets import InvalidTarget, parse_target

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

HOST = "xn--a-ecp.test"
PAGE = f"https://{HOST}/a*b?"


def queued() -> Fetch:
    """Return a fetch of such a host, as it stands in the table."""
    with pytest.raises(InvalidTarget, match="is not a host name"):
        parse_target(PAGE)
    fetch = request_fetch("https://earlier.test/")
    Fetch.objects.filter(is_robots=True).delete()
    Site.objects.filter(name="earlier.test").update(name=HOST)
    Fetch.objects.filter(pk=fetch.pk).update(url=PAGE, hop_url=PAGE)
    return fetch


def admitted() -> list[Job]:
    """Claim what is due, and return what is requested."""
    all_due()
    jobs, _ = admit(claimed(), RobotsFiles())
    return jobs


def test_its_robots_txt_is_asked_for_and_noted_and_it_is_requested() -> None:
    """As it stands in the table: nothing looks at it again. Where a redirect stays at the host, it ends."""
    fetch = queued()
    assert admitted() == []
    Fetch.objects.filter(pk=fetch.pk).update(state=FetchState.QUEUED, slot_id=None, lease_until=None)
    [robots] = admitted()
    assert [one.url for one in robots_fetches()] == [robots.url] == [f"https://{HOST}/robots.txt"]
    answered(robots, 200, b"User-agent: *\nAllow: /")
    assert RobotsFile.objects.get().origin == f"https://{HOST}"
    Fetch.objects.filter(pk=fetch.pk).update(state=FetchState.QUEUED, slot_id=None, lease_until=None)
    [page] = admitted()
    assert page.url == PAGE
    answered(page, 302, b"", (b"Location", b"/c"))
    fetch.refresh_from_db()
    assert (fetch.state, fetch.error) == (FetchState.FAILED, f"redirected to '/c': {HOST!r} is not a host name")


def test_it_follows_its_host_to_another_site() -> None:
    """A site that is split moves all that is queued there."""
    site_settings.set_rate("test", "10/s", covers_subdomains=True)
    fetch = queued()
    site_settings.set_rate(HOST, "10/s")
    strays.follow_all(0)
    fetch.refresh_from_db()
    assert fetch.site is not None
    assert fetch.site.name == HOST
