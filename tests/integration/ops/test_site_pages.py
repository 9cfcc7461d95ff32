"""What the list of sites and the page of a site say of a site that is held."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.test import Client

from project.logins import links
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site
from weir.workers.audit.acting import Actor
from weir.workers.audit.models import Door
from weir.workers.fetches.actions import sites
from weir.workers.fetches.enqueue import request_fetches

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITE = "a.example"


@pytest.fixture
def operator() -> Client:
    """Return a browser in which the operator is signed in."""
    client = Client()
    client.force_login(links.operator())
    return client


@pytest.fixture(autouse=True)
def _queue() -> None:
    site_settings.set_rate(SITE, "1/10h")
    request_fetches([f"http://{SITE}/{number}" for number in range(3)])


def test_of_a_silent_site_only_the_next_try_is_known(operator: Client) -> None:
    """Between its back-offs, too."""
    site_settings.back_off(SITE, slot=slots.reserve(SITE).slots[0].id)
    Site.objects.update(backed_off_until=Now() - timedelta(seconds=1), next_start=Now() + timedelta(hours=5.5))
    page = operator.get("/sites/").text
    assert '<span class="bad">backed off</span>, next try in 5h' in page
    assert "unknown while it does not answer" in page
    page = operator.get(f"/sites/{SITE}/?add=5").text
    assert "when the backlog is cleared is unknown while it does not answer" in page
    assert "When anything starts is unknown while the site does not answer." in page
    assert ">in 5h" in page
    assert "when it answers" in page


def test_who_paused_it_and_why(operator: Client) -> None:
    """What a person wrote is text."""
    sites.pause(Actor(name="ada", door=Door.PAGE, may=lambda _: True), SITE, why="Its <b>owner</b> called.")
    for path in ("/sites/", f"/sites/{SITE}/"):
        page = operator.get(path).text
        assert " by ada" in page, path
        assert "Its &lt;b&gt;owner&lt;/b&gt; called." in page, path
