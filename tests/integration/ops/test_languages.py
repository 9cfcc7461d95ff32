"""A team's language and its way to write numbers change no number that a browser reads: Weir's pages are English."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.template import Context, Template
from django.test import Client, RequestFactory
from pytest_django import Settings

from project.logins import links
from weir.notifications.models import Notification
from weir.ratelimit import site_settings
from weir.ratelimit.throttle import throttle
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]

SITE, NUMBER = "a.example", 1_234_567
# A number in an attribute, with a decimal comma, or with thousands set apart by a point.
LOCAL = re.compile(r' (?:d|height|max|value|viewBox|width|x|y|data-every)="[^"]*?(?:\d,\d|\b\d{1,3}\.\d{3}\b)[^"]*"')


@pytest.fixture(autouse=True)
def german(settings: Settings) -> None:
    settings.LANGUAGE_CODE = "de"
    settings.USE_THOUSAND_SEPARATOR = True


@pytest.fixture
def operator() -> Client:
    """Return a browser in which the operator is signed in."""
    client = Client()
    client.force_login(links.operator())
    return client


def test_the_pages_have_no_number_in_another_form(operator: Client) -> None:
    """Drawings, the time between two looks, and the ids that are to be typed into a command."""
    site_settings.set_rate(SITE, "3/s")
    with throttle(SITE, max_wait=5):
        pass
    Fetch.objects.filter(pk=request_fetch(f"http://{SITE}/").pk).update(id=NUMBER)
    paths = ("/", "/sites/", f"/sites/{SITE}/", "/fetches/", f"/fetches/{NUMBER}/")
    pages = [operator.get(path).text for path in paths]
    assert [found for page in pages for found in LOCAL.findall(page)] == []
    assert str(NUMBER) in pages[3]
    assert "1.234.567" not in "".join(pages)


def test_the_bell_has_none_either() -> None:
    """It is part of a page of the team's own."""
    user = get_user_model().objects.create_user("kim")
    Notification.objects.bulk_create([Notification(user_id=user.pk, kind="k", title="t") for _ in range(1_200)])
    request = RequestFactory().get("/")
    request.user = user
    element = Template("{% load weir_bell %}{% bell every=2.5 %}").render(Context({"request": request}))
    assert 'every="2.5"' in element
    assert re.search(r' unread="\d+"', element)
