"""After which act a page is shown: the visitor's own, and not for ever."""

import time
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.signing import TimestampSigner, b62_encode
from django.http import HttpRequest
from django.test import RequestFactory

from tests.cases import for_each
from weir.ops import pages
from weir.ops.snapshots import LONGEST_LIFE_S
from weir.workers.audit.models import Entry


def asked(path: str, name: str = "ada") -> HttpRequest:
    request = RequestFactory().get(path)
    request.user = User(username=name)
    return request


def url(number: int = 4711, path: str = "/sites/") -> str:
    return pages.after_act(asked("/"), path, Entry(pk=number))


def test_an_act_is_named_by_the_url_to_which_it_leads() -> None:
    """Beside the query that the page has."""
    assert pages.done(asked(url())) == "4711"
    assert pages.done(asked(url(path="/fetches/?state=failed&site=a"))) == "4711"
    assert parse_qs(urlsplit(url(path="/fetches/?state=failed")).query)["state"] == ["failed"]


@for_each("query", ["", "?done=", "?done=4711", "?done=%00", "?done=%F0%9F", "?done=1:1:1"])
def test_without_an_act_there_is_none(query: str) -> None:
    assert pages.done(asked(f"/sites/{query}")) == ""


def test_nobody_names_an_act_of_another_or_one_by_its_number() -> None:
    """Each act would have snapshots of its own."""
    assert pages.done(asked(url(), name="eve")) == ""
    assert pages.done(asked(url().replace("4711", "4712"))) == ""


@pytest.mark.parametrize(("age_s", "counts"), [(LONGEST_LIFE_S + 30, True), (2 * LONGEST_LIFE_S + 2, False)])
def test_an_act_counts_for_longer_than_any_snapshot_lives(
    age_s: float, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then an open page gets the same snapshots as that of any other viewer."""
    with monkeypatch.context() as then:
        then.setattr(TimestampSigner, "timestamp", lambda _self: b62_encode(int(time.time() - age_s)))
        old = url()
    assert pages.done(asked(old)) == ("4711" if counts else "")
    assert timedelta(seconds=age_s) < pages.SAID_FOR
