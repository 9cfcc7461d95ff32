"""A Crawl-delay holds at its site as long as its robots.txt counts and is obeyed, and again when it is obeyed again."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.robots.conftest import ORIGIN, PAGE, answered, claimed, known
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.maintenance.purge import purge
from weir.workers.fetches.models import RobotsFile
from weir.workers.fetches.robots.files import RobotsFiles

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

HOUR = timedelta(hours=1)
SLOW, SLOWER = timedelta(seconds=20), timedelta(seconds=90)


@pytest.fixture(autouse=True)
def site() -> Site:
    """Return a site whose robots.txt asks for less than its rate, and has it."""
    site_settings.set_rate("site.example", "1/s")
    file = known(rules="", crawl_delay=SLOW)
    site_settings.set_crawl_delay(file.site_id, SLOW)
    return file.site


def delay() -> timedelta | None:
    """Return the site's Crawl-delay."""
    return Site.objects.get(name="site.example").crawl_delay


def expire(origin: str) -> None:
    """Let what is known of an origin count no more."""
    long_ago = database_now() - HOUR
    RobotsFile.objects.filter(origin=origin).update(refresh_at=long_ago, expires_at=long_ago)


def test_it_stays_while_its_robots_txt_counts() -> None:
    """What looks for delays that are over leaves the others."""
    purge()
    assert delay() == SLOW


def test_it_goes_when_its_robots_txt_has_expired() -> None:
    """Also at a site whose robots.txt no fetch needs any more."""
    expire(ORIGIN)
    purge()
    assert delay() is None


def test_it_falls_to_the_longest_that_still_counts(site: Site) -> None:
    """One origin of several that share the site has expired."""
    known("http://site.example", rules="", crawl_delay=SLOWER)
    site_settings.set_crawl_delay(site.pk, SLOWER)
    expire("http://site.example")
    purge()
    assert delay() == SLOW


def test_it_goes_where_robots_txt_is_obeyed_no_longer(settings: Settings) -> None:
    """With the setting; a site that says otherwise keeps its own."""
    settings.WEIR_OBEY_ROBOTS = False
    site_settings.set_rate("site.example", "1/s", obeys_robots=True)
    purge()
    assert delay() == SLOW
    Site.objects.update(obeys_robots=None)
    purge()
    assert delay() is None


def test_an_answer_that_comes_when_robots_txt_is_obeyed_no_longer_brings_none(settings: Settings) -> None:
    """A robots.txt that was in flight is noted, but slows nothing down."""
    RobotsFile.objects.all().delete()
    site_settings.set_crawl_delay(Site.objects.get().pk, None)
    request_fetch(PAGE)
    Site.objects.update(recalled_at=None)
    [job] = claimed()
    settings.WEIR_OBEY_ROBOTS = False
    answered(job, 200, b"User-agent: *\nCrawl-delay: 20\n")
    assert RobotsFile.objects.get().crawl_delay == SLOW
    assert delay() is None


def test_it_is_back_with_the_first_fetch_when_robots_txt_is_obeyed_again(site: Site) -> None:
    """What is known already need not be asked for again to count."""
    site_settings.set_crawl_delay(site.pk, None)
    RobotsFiles().known({ORIGIN: site.pk})
    assert delay() == SLOW


def test_it_is_back_at_once_when_an_operator_has_the_site_obey_again() -> None:
    """Also for `throttle`, which looks at no robots.txt."""
    call_command("sites", "set", "site.example", "1/s", "--no-obey-robots")
    assert delay() is None
    call_command("sites", "set", "site.example", "1/s", "--obey-robots")
    assert delay() == SLOW
