"""Whatever a site is called, its page opens: by the list's link, and by the links of other pages."""

import re
import shlex
from html import unescape

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from project.logins import links
from tests.integration.reports.remedies import check_remedy
from weir.ops import answers
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.reports.why import why

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

NAMES = [
    "a.example:8080", "127.0.0.1:81", "[::1]", "[2001:db8::1]:8080", "[fe80::1%eth0]", "bücher.example", "mail-relay",
    "a%2fb", "%2e%2e", "..a", "100%", "a&b=c", "a+b", "a;b", "a\\b", "a'b", 'a"b<c>', "a$(b)", "~a", "x" * 300,
]  # fmt: skip


@pytest.fixture
def operator() -> Client:
    """Return a browser in which the operator is signed in."""
    answers.forget()
    client = Client()
    client.force_login(links.operator())
    return client


@pytest.mark.parametrize("name", NAMES)
def test_each_site_has_a_page_that_opens_from_the_list(name: str, operator: Client) -> None:
    """And the page links a list of its fetches."""
    site_settings.set_rate(name, "7/s")
    [link] = re.findall(r'<th scope="row"><a href="([^"]+)"', operator.get("/sites/").text)

    page = operator.get(unescape(link))

    assert page.status_code == 200
    assert f"<h1>{Site.objects.get().name}</h1>" in unescape(page.text)
    [fetches] = re.findall(r'href="(/fetches/\?site=[^"]+)"', page.text)
    listed = operator.get(unescape(fetches))
    assert (listed.status_code, 'class="failed"' in listed.text) == (200, False)
    [command] = re.findall(r"<code>(manage.py sites set .*?)</code>", page.text)
    assert shlex.split(unescape(command))[-1] == Site.objects.get().name


@pytest.mark.parametrize("host", ["a.example:8080", "[2606:4700::1111]:8080", "bücher.example", "1.1.1.1"])
def test_what_is_advised_for_a_site_can_be_typed(host: str, operator: Client) -> None:
    """A shell takes brackets for a pattern: they are quoted. The fetch's page links the site's."""
    fetch = request_fetch(f"http://{host}/")
    name = Site.objects.get().name
    site_settings.pause(name)

    [paused] = [blocker for blocker in why(fetch.pk).blockers if blocker.kind == "paused"]

    check_remedy(paused)
    assert re.fullmatch(r"manage\.py sites resume ('[^']+'|[\w.:-]+)", paused.remedy)
    assert shlex.split(paused.remedy)[-1] == name
    assert f'href="{reverse("weir_ops:site", args=[name])}"' in operator.get(f"/fetches/{fetch.pk}/").text


def test_the_page_of_a_site_says_which_starts_were_out_of_time(operator: Client) -> None:
    """Only if there were any."""
    for name, starts in (("punctual.example", 0), ("stopped.example", 2)):
        site_settings.set_rate(name, "1/s")
        Site.objects.filter(name=name).update(starts_out_of_time=starts, out_of_time_at=Now() if starts else None)
    assert "out of time" not in operator.get("/sites/punctual.example/").text
    page = operator.get("/sites/stopped.example/").text
    assert re.search(r"<b class=\"warn\">2 starts</b> out of time, the last <time[^>]*>[^<]+ ago", page)
