"""The search field leads from what an operator has at hand to its page."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models.functions import Now
from django.test import Client

from project.logins import links
from weir.ops.views import search
from weir.ratelimit import site_settings
from weir.workers.fetches.batches.counts import id_of
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


@pytest.fixture
def operator() -> Client:
    """Return a browser in which the operator is signed in."""
    client = Client()
    client.force_login(links.operator())
    return client


def email(key: str, to: str, message_id: str = "<1@shop.example>", **state: Any) -> Email:
    return Email.objects.create(kind="order.shipped", key=key, recipient=to, message_id=message_id, **state)


def led(client: Client, text: str) -> str:
    """Return where a search leads at once."""
    answer = client.get("/search/", {"q": text})
    assert answer.status_code == 302, answer.text
    return answer["Location"]


def shown(client: Client, text: str) -> list[str]:
    """Return the paths that a search shows."""
    answer = client.get("/search/", {"q": text})
    assert answer.status_code == 200
    return [unescape(part.partition('"')[0]) for part in answer.text.partition("<main")[2].split('<a href="')[1:]]


@pytest.mark.parametrize("recipient", ["ΝΙΚΟΣ@x.example", "İlker@x.example", "STRASSE@x.example"])
def test_a_recipient_is_found_as_it_is_stored(operator: Client, recipient: str) -> None:
    """Python and PostgreSQL write some letters in different ways in lower case."""
    stored = email("A-1", recipient)
    assert led(operator, recipient) == f"/emails/{stored.pk}/"


def test_one_hit_leads_straight_to_its_page(operator: Client) -> None:
    """Whatever names it, in upper or lower case, or only its beginning."""
    fetch = request_fetch("https://shop.example/tea?cup=1")
    robin = email("A-1", "Robin.Tee@Customers.example")
    fetch_page, email_page = f"/fetches/{fetch.pk}/", f"/emails/{robin.pk}/"
    Fetch.objects.filter(pk=fetch.pk).update(id=fetch.pk + 1_000)  # no e-mail has this number
    fetch_page = f"/fetches/{fetch.pk + 1_000}/"
    for text in (
        str(fetch.pk + 1_000),
        f"#{fetch.pk + 1_000}",
        "https://shop.example/tea?cup=1",
        "shop.example/tea",
        "https://sh",
    ):
        assert led(operator, text) == fetch_page, text
    for text in ("robin", "ROBIN.tee@customers.example", "A-1", "<1@shop.example>", "1@shop.example"):
        assert led(operator, f" {text} ") == email_page, text
    for text in ("shop.example", "SHOP.example", "shop", ".example", "http://shop.example/nothing/like/it"):
        assert led(operator, text) == "/sites/shop.example/", text


def test_what_has_hits_of_several_kinds_is_shown_as_links(operator: Client) -> None:
    """A number may be that of a fetch and of an e-mail; a site's name wins over longer ones."""
    fetch, other = request_fetch("https://shop.example/"), email("7", "shop@x.example")
    Email.objects.filter(pk=other.pk).update(id=fetch.pk)
    assert shown(operator, str(fetch.pk)) == [f"/fetches/{fetch.pk}/", f"/emails/{fetch.pk}/"]
    assert shown(operator, "shop") == ["/sites/shop.example/", f"/emails/{fetch.pk}/"]
    site_settings.set_rate("shop.example.org", "1/s")
    assert led(operator, "shop.example") == "/sites/shop.example/"
    assert shown(operator, "shop.") == ["/sites/shop.example/", "/sites/shop.example.org/"]


def test_of_many_hits_a_few_are_shown_with_the_list_of_all(operator: Client) -> None:
    """The list has the filter on."""
    request_fetches(f"http://{number}.example/page" for number in range(search.MOST + 2))
    request_fetches(f"http://0.example/page/{number}" for number in range(search.MOST + 2))
    for number in range(search.MOST + 2):
        email(f"K-{number}", f"kim+{number}@x.example")
    *sites, all_sites = shown(operator, ".example")
    *emails, all_emails = shown(operator, "kim+")
    *fetches, all_fetches = shown(operator, "0.example/page/")
    assert len(sites) == len(emails) == len(fetches) == search.MOST
    assert (all_sites, all_emails) == ("/sites/?search=.example&sort=name", "/emails/?state=&to=kim%2B")
    assert all_fetches == "/fetches/?url=http%3A%2F%2F0.example%2Fpage%2F%2A"
    for path in (all_sites, all_emails, all_fetches):
        rows = operator.get(path).text.partition('id="list"')[2].count('<tr><th scope="row">')
        assert rows == search.MOST + 2, path


def test_an_email_whose_number_was_meant_is_shown_once(operator: Client) -> None:
    """Its key may be the number of another one, or its own."""
    first, second = email("1", "kim@x.example"), email("2", "robin@x.example", "<2@shop.example>")
    Email.objects.filter(pk=first.pk).update(key=second.pk)
    assert shown(operator, str(second.pk)) == [f"/emails/{second.pk}/", f"/emails/{first.pk}/"]
    Email.objects.filter(pk=first.pk).update(key="1")
    Email.objects.filter(pk=second.pk).update(key=second.pk)
    assert led(operator, str(second.pk)) == f"/emails/{second.pk}/"


def test_a_part_of_a_url_is_found(operator: Client) -> None:
    """At the site that it begins with, or at any; of those that wait, and of those that have ended."""
    tea, cup, other = request_fetches(
        ["https://shop.example/eu/Tea?cup=1", "https://shop.example/eu/cup", "http://b.example/eu/tea"]
    )
    Fetch.objects.filter(pk=tea.pk).update(state="failed", error="lost", finished_at=Now())
    tea_page, cup_page, other_page = (f"/fetches/{fetch.pk}/" for fetch in (tea, cup, other))
    assert led(operator, "/eu/cup") == led(operator, "eu/CUP") == cup_page
    assert led(operator, "shop.example/tea") == led(operator, "https://shop.example/tea?") == tea_page
    assert shown(operator, "/tea") == [other_page, tea_page]
    assert led(operator, "eu/tea?cup") == tea_page
    assert led(operator, "cup=1") == tea_page
    assert led(operator, "https://shop.example/none") == "/sites/shop.example/"


def test_how_many_fetches_were_looked_at_is_said(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list that goes on is one click away, and a single hit leads nowhere by itself: there may be others."""
    monkeypatch.setattr("weir.workers.fetches.reports.fetch_list.LOOKED_AT", 5)
    request_fetches(f"http://shop.example/{number}" for number in range(20))
    Fetch.objects.filter(url__endswith="5").update(state="cancelled", finished_at=Now())
    newest = Fetch.objects.get(url__endswith="/19")
    assert shown(operator, "example/19") == [f"/fetches/{newest.pk}/", "/fetches/?site=&url=%2Aexample%2F19"]
    page = operator.get("/search/", {"q": "example/19"}).text
    assert "Of all sites, 5 fetches that have not ended were looked at." in page
    assert shown(operator, "shop.example/x/19") == [
        "/fetches/?site=shop.example&url=%2A%2Fx%2F19", "/sites/shop.example/",
    ]  # fmt: skip
    page = operator.get("/search/", {"q": "shop.example/x/19"}).text
    assert "Of shop.example, 5 fetches that have not ended were looked at." in page


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nobody",
        "999",
        "9" * 5_000,
        "x" * 9_000,
        "http://[::1",
        "//",
        "a b*",
        "\0",
        ".",
        "<script>alert(1)</script>",
    ],
)
def test_where_nothing_is_found_the_page_says_what_may_be_searched_for(operator: Client, text: str) -> None:
    """Whatever was typed."""
    answer = operator.get("/search/", {"q": text})
    assert answer.status_code == 200
    assert "the number of a fetch, an e-mail or an effect" in answer.text
    assert ("Nothing is found." in answer.text) == bool(text.strip("\0"))
    assert "<script>alert" not in answer.text
    assert "Content-Security-Policy" in answer


def test_a_question_that_takes_too_long_is_said_and_the_others_are_answered(operator: Client) -> None:
    """Nor does a single hit lead anywhere: there may be others."""
    request_fetch("https://shop.example/")

    def away(*_arguments: object, **_named: object) -> Iterator[object]:
        raise OperationalError

    with patch("weir.workers.mail.reports.searching.matching", away):
        answer = operator.get("/search/", {"q": "shop"})
    assert answer.status_code == 200
    assert "PostgreSQL does not answer." in answer.text
    assert 'href="/sites/shop.example/"' in answer.text


def test_only_who_may_see_the_pages_searches() -> None:
    """Others learn nothing, and have no field."""
    request_fetch("https://shop.example/")
    assert Client().get("/search/?q=shop")["Location"] == "/sign-in/?next=/search/%3Fq%3Dshop"
    kim = Client()
    kim.force_login(User.objects.create_user("kim"))
    refused = kim.get("/search/?q=shop")
    assert refused.status_code == 403
    assert 'name="q"' not in refused.text


def test_the_field_is_on_each_page_and_keeps_what_was_typed(operator: Client) -> None:
    """On those with a form, and those that are not there, too."""
    site_settings.set_rate("a.example", "1/s")
    for path in ("/", "/fetches/", "/sites/a.example/", "/sites/a.example/pause/", "/sites/nowhere.example/"):
        assert operator.get(path).text.count('action="/search/"') == 1, path
    assert 'value="&quot;tea&quot;"' in operator.get("/search/", {"q": '"tea"'}).text
    assert operator.post("/search/").status_code == 405


def test_a_recipient_who_is_typed_into_the_list_of_e_mails_is_found(operator: Client) -> None:
    """As a browser sends the form, without a look at its field of states. What is chosen there stays."""
    robin = email("A-1", "robin@customers.example")
    row = f'href="/emails/{robin.pk}/"'
    [usual] = re.findall(r'<select name="state"><option value="([^"]*)" selected>', operator.get("/emails/").text)
    assert row not in operator.get("/emails/").text
    assert row in operator.get("/emails/", {"state": usual, "kind": "", "to": "robin", "within": ""}).text
    missed = operator.get("/emails/?state=sent&to=robin").text
    assert row not in missed
    assert '<a href="?state=&amp;to=robin">Look in any state</a>' in missed
    assert row in operator.get("/emails/?state=&to=robin").text


def test_a_batch_is_found_by_its_name_or_its_beginning(operator: Client) -> None:
    """A program's batch as it is stored."""
    for name in ("import-7", "import-70", "api:shop a/b"):
        request_fetches(["https://a.example/"], batch=name)
    seven, seventy, of_program = (f"/batches/{id_of(name)}/" for name in ("import-7", "import-70", "api:shop a/b"))
    assert led(operator, "import-7") == seven
    assert led(operator, "import-70") == seventy
    assert shown(operator, "import") == [seven, seventy]
    assert led(operator, "api:shop a/b") == of_program
