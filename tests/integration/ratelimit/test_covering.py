"""A site that covers its subdomains is the site of their reservations, as it is of their fetches."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import PAUSED_FOREVER, Site, Slot
from weir.ratelimit.sites import UnknownSite, known_sites
from weir.ratelimit.slots import SlotTooFar
from weir.ratelimit.throttle import throttle
from weir.workers.fetches.enqueue import request_fetch

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "example.com"


def site_names() -> set[str]:
    return set(Site.objects.values_list("name", flat=True))


def site_of(name: str) -> str:
    """Return the site at which a reservation for this name is made."""
    reservation = slots.reserve(name)
    reserved = Site.objects.get(pk=Slot.objects.get(pk=reservation.slots[0].id).site_id)
    assert reserved.name == reservation.site
    return reserved.name


def test_a_covered_host_is_reserved_at_the_site_that_covers_it() -> None:
    """The host gets no site of its own: that would double the rate."""
    site_settings.set_rate(SITE, "10/s", covers_subdomains=True)
    assert site_of("www.example.com") == site_of("A.B.Example.com.") == site_of(SITE) == SITE
    assert site_names() == {SITE}


def test_hosts_that_share_a_site_wait_for_each_other() -> None:
    """A refusal for one host takes the reservations for the others into account, and names their site."""
    site_settings.set_rate(SITE, "1/h", covers_subdomains=True)
    with throttle("www.example.com"):
        pass
    assert 3590 < slots.estimate("shop.example.com") <= 3601
    with pytest.raises(SlotTooFar) as refusal, throttle("shop.example.com"):
        pytest.fail("It started though its site is reserved.")
    assert refusal.value.site == SITE
    assert 3590 < refusal.value.retry_after <= 3601
    assert site_names() == {SITE}


def test_several_starts_of_a_covered_host_are_one_run() -> None:
    """This holds for any number of slots."""
    site_settings.set_rate(SITE, "10/s", covers_subdomains=True)
    reservation = slots.reserve("www.example.com", 5)
    assert reservation.site == SITE
    assert len(reservation.slots) == 5


def test_a_start_that_was_given_back_goes_to_any_host_of_the_site() -> None:
    """A start belongs to the site, not to the host."""
    site_settings.set_rate(SITE, "1/10s", covers_subdomains=True)
    slots.reserve(SITE)
    given_back = Slot.objects.get(pk=slots.reserve("www.example.com").slots[0].id)
    slots.release(given_back.pk)
    taken = slots.reserve("shop.example.com")
    assert Slot.objects.get(pk=taken.slots[0].id).start_time == given_back.start_time


@pytest.mark.usefixtures("messages")
def test_fetches_and_reservations_of_a_host_have_one_site(settings: Settings) -> None:
    """Its own, or the nearest that covers it; with another port it is another site."""
    settings.WEIR_FETCH_ALLOW_NETS = ["127.0.0.1/32"]
    site_settings.set_rate(SITE, "10/s", covers_subdomains=True)
    site_settings.set_rate("shop.example.com", "10/s", covers_subdomains=True)
    site_settings.set_rate("own.example.com", "10/s")
    sites = {
        "example.com": "example.com",
        "www.example.com": "example.com",
        "a.shop.example.com": "shop.example.com",
        "own.example.com": "own.example.com",
        "below.own.example.com": "example.com",
        "www.example.com:8080": "www.example.com:8080",
        "example.net": "example.net",
        "127.0.0.1": "127.0.0.1",
    }
    assert {host: site_of(host) for host in sites} == sites
    fetched = {host: request_fetch(f"http://{host}/").site for host in sites}
    assert {host: site and site.name for host, site in fetched.items()} == sites


def test_a_host_that_is_covered_no_more_gets_a_site_of_its_own(settings: Settings) -> None:
    """A change of what a site covers holds for the next reservation."""
    settings.WEIR_DEFAULT_RATE = "7/s"
    site_settings.set_rate(SITE, "1/h", covers_subdomains=True)
    assert site_of("www.example.com") == SITE
    site_settings.set_rate(SITE, "1/h", covers_subdomains=False)
    assert site_of("www.example.com") == "www.example.com"
    assert slots.estimate("shop.example.com") == 0
    assert site_names() == {SITE, "www.example.com"}


def test_asking_creates_nothing() -> None:
    """Neither an estimate nor a look makes a site."""
    site_settings.set_rate(SITE, "1/h", covers_subdomains=True)
    assert slots.estimate("www.example.com") == slots.estimate("www.example.net") == 0
    assert known_sites({"www.example.com", "example.net"}).keys() == {"www.example.com"}
    assert known_sites(set()) == {}
    assert site_names() == {SITE}


@pytest.mark.parametrize("call", [site_settings.pause, site_settings.resume, site_settings.set_rate])
def test_a_covered_host_is_refused_where_all_hosts_of_its_site_would_change(call: Callable[[str], None]) -> None:
    """The error names the site: an operator can give that name instead."""
    site_settings.set_rate(SITE, "1/h", covers_subdomains=True)
    site_settings.pause(SITE)
    with pytest.raises(UnknownSite) as refusal:
        call("www.example.com")
    assert str(refusal.value) == ("There is no site 'www.example.com': it is covered by example.com. Name that one.")
    assert Site.objects.get().paused_until == PAUSED_FOREVER


def test_a_site_that_exists_costs_one_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a site covers is looked up only for names that have no site of their own."""
    site_settings.set_rate(SITE, "1000/s", covers_subdomains=True)
    ran: list[str] = []
    execute = statements.execute

    def noted(statement: Statement[Any], *how: Any) -> list[Any]:
        if statement.room == "weir.ratelimit":  # not those of the gate, which reads the clock now and then
            ran.append(statement.name)
        return execute(statement, *how)

    monkeypatch.setattr(statements, "execute", noted)
    slots.reserve(SITE)
    assert ran == ["reserve"]
