"""The demo's page with the bell: for who is signed in, and only where the servers are the embedded ones."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth import get_user_model
from django.test import Client, override_settings
from django.urls import clear_url_caches

from demo import bell
from project import urls
from weir.notifications import inbox
from weir.ops.pages import CONTENT_SECURITY_POLICY

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]


@contextmanager
def page_there(is_there: bool) -> Iterator[Client]:
    """Load the project's URLs as with embedded servers, or as with others."""
    with override_settings(WEIR_DEMO_PAGE=is_there):
        _read_urls()
        yield Client()
    _read_urls()


def _read_urls() -> None:
    importlib.reload(urls)
    clear_url_caches()


def test_the_page_notifies_who_asks() -> None:
    """It shows the bell under the policy of all pages, and counts the rows."""
    with page_there(True) as client:
        assert client.get("/demo/")["Location"] == "/sign-in/?next=/demo/"
        person = get_user_model().objects.create_user("kim")
        client.force_login(person)
        page = client.get("/demo/")
        assert page["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert "<weir-bell " in page.text
        assert client.get("/demo/rows/").json() == {"rows": 0}
        assert client.post("/demo/notify/")["Location"] == "/demo/"
        assert client.get("/demo/rows/").json() == {"rows": inbox.unread_count(person.pk)} == {"rows": 1}


def test_there_is_no_such_page_on_real_servers() -> None:
    """The bell itself is there."""
    with page_there(False) as client:
        assert client.get("/demo/").status_code == 404
        assert client.get("/bell/").status_code == 401


def test_a_project_whose_urls_leave_the_page_out_has_no_link_to_it() -> None:
    """As those of README and of the how-tos."""
    with page_there(True):
        assert bell.address("http://a") == "http://a/demo/"
    with page_there(False):
        assert bell.address("http://a") is None
