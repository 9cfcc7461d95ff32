"""Indexes answer what operators ask, among 120,000 e-mails: no list, search or count reads the whole table."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from project.logins import links
from tests.integration.plans import explain, plan_of, rows_read, rows_read_by
from weir.ops.views import search
from weir.postgres import planner, short_paginator
from weir.workers.ledger import paging
from weir.workers.mail import kinds
from weir.workers.mail.maintenance import forgetting
from weir.workers.mail.models import Email
from weir.workers.mail.reports import counts, listing

ROWS = 120_000
FILL = f"""
    INSERT INTO weir_mail_email (
        kind, key, message_id, recipient, state, attempts, claimed_by, phase, last_reply, sent_at, next_attempt_at
    )
    SELECT CASE WHEN n %% 30000 = 0 THEN 'order.shipped' ELSE 'news' END, n, '<' || n || '@shop.example>',
        'kim.' || n || '@customers.example', state, 0, '', '', 'x', CASE WHEN state = 'sent' THEN now() END,
        now() + n * interval '1 second'
    FROM (
        SELECT n, CASE WHEN n %% 10 = 0 THEN 'failed' WHEN n %% 10 = 1 THEN 'pending' ELSE 'sent' END AS state
        FROM generate_series(1, {ROWS}) AS n
    ) AS numbered;
    INSERT INTO weir_mail_rendering (email_id, content, rendered_at)
    SELECT id, 'x', now() - interval '40 days' + id * interval '1 second' FROM weir_mail_email WHERE id %% 10 > 7
"""
# What a list, a page with its count, and a search may look at.
LISTED, COUNTED = 200, 11_000
LOOKED_UP = 10  # the first e-mail of each kind

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def _many(shared_rows: None) -> None:  # noqa: ARG001  must come first
    """One in ten failed, one in ten waits; four are of another kind, all of them failed."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_mail_email CASCADE")
        cursor.execute(FILL.replace("%%", "%"))
        cursor.execute("VACUUM ANALYZE weir_mail_email, weir_mail_rendering")


def read_by(call: Callable[[], object]) -> int:
    """Return how many e-mails its queries look at; no query may scan the table in its own order."""
    with CaptureQueriesContext(connection) as captured:
        call()
    asked = [query["sql"] for query in captured if 'FROM "weir_mail_email"' in query["sql"]]
    assert asked
    read = []
    for text in asked:
        is_count = "COUNT(*)" in text
        with connection.cursor() as cursor:  # counting sets it off for its transaction, here the test's
            cursor.execute(f"SET LOCAL enable_seqscan = {'off' if is_count else 'on'}")
        scans = {node["Node Type"] for node in explain(text) if node.get("Relation Name") == "weir_mail_email"}
        assert "Seq Scan" not in scans, text
        read.append(rows_read_by(text, "weir_mail_email"))
    return max(read)


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "--state failed",
        "--state sent",
        "--state pending --kind order.shipped",
        "--state failed --kind order.shipped",
        "--state failed --kind news",
        "--state sent --kind news",
        "--to kim",
        "--to kim.4711@customers.example",
        "--to kim.4711 --state sent",
        "--to kim.4711 --kind news",
    ],
)
def test_a_list_reads_what_it_shows(arguments: str) -> None:
    """Of any state and kind, and to any address."""

    def listed() -> None:
        call_command("emails", "list", *arguments.split(), stdout=StringIO())

    assert read_by(listed) <= LISTED


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize("kind", ["", "news"])
def test_a_page_looks_at_no_more_than_its_bound_where_what_is_wanted_comes_last(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL expects the failed ones to be spread over all addresses, but they are among the last."""
    monkeypatch.setattr(paging, "LOOKED_AT", 1_000)
    last = Email.objects.filter(recipient__gte="kim.9")
    Email.objects.filter(state="failed").update(state="sent", sent_at=Now())
    last.filter(state="sent").update(state="failed", sent_at=None)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE weir_mail_email")
    assert (
        read_by(lambda: listing.page(listing.EmailFilters(to="kim", state="failed", kind=kind)))
        <= 1_000 + paging.A_PAGE
    )


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize(
    "wanted",
    [
        listing.EmailFilters(to="kim.4", kind="order.shipped"),
        listing.EmailFilters(to="kim.17", state="failed"),
        listing.EmailFilters(kind="order.shipped", state="pending"),
        listing.EmailFilters(kind="news", state="sent", to="kim.1999"),
    ],
    ids=str,
)
def test_the_pages_of_operators_have_all_that_is_wanted_once(
    wanted: listing.EmailFilters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if pages are short."""
    monkeypatch.setattr(paging, "LOOKED_AT", 3_000)
    page = listing.page(wanted)
    found = [email.pk for email in page.emails]
    while page.next:
        assert len(page.emails) == paging.A_PAGE or page.looked_at
        page = listing.page(wanted, page.next)
        found += [email.pk for email in page.emails]
    assert found == [email.pk for email in listing.listed(wanted)]


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize("state", ["", "sent", "failed", "unknown"])
def test_what_ended_lately_is_looked_for_among_the_newest(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page looks at more than its bound, though nothing of the hour is found."""
    monkeypatch.setattr(paging, "LOOKED_AT", 1_000)
    wanted = listing.EmailFilters(state=state, within=counts.HOUR)
    assert read_by(lambda: listing.page(wanted)) <= 1_000
    newest = list(Email.objects.filter(state=state or "failed").order_by("-pk").values_list("pk", flat=True)[:3])
    Email.objects.filter(pk__in=newest).update(ended_at=Now())
    assert [email.pk for email in listing.page(wanted).emails] == newest


@pytest.mark.usefixtures("_many")
def test_sent_e_mails_are_found_among_many_that_were_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if hardly any were sent, the newest first; no page takes long."""
    monkeypatch.setattr(paging, "LOOKED_AT", 30_000)
    Email.objects.filter(state="sent").exclude(recipient__startswith="kim.77").update(state="failed", sent_at=None)
    wanted = listing.EmailFilters(state="sent")
    page = listing.page(wanted)
    found = [email.pk for email in page.emails]
    while page.next:
        page = listing.page(wanted, page.next)
        found += [email.pk for email in page.emails]
    assert found == [email.pk for email in listing.listed(wanted)]


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize(
    "query",
    [
        {},
        {"state__exact": "failed"},
        {"state__exact": "unknown"},
        {"kind": "order.shipped"},
        {"kind": "order.shipped", "state__exact": "failed"},
        {"q": "kim.4711"},
        {"q": "4711"},
        {"q": "<4711@shop.example>"},
        {"q": "nobody"},
    ],
)
def test_a_page_of_the_admin_counts_no_further_than_its_bound(query: dict[str, str]) -> None:
    """And finds by indexes what it shows."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    assert short_paginator.MOST_COUNTED == counts.MOST == 10_000

    def listed() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = on")
            assert client.get(reverse("admin:weir_mail_email_changelist"), query).status_code == 200
            cursor.execute("SHOW enable_seqscan")  # counting sets it off, in the test's transaction
            assert cursor.fetchone() == ("off",)

    assert read_by(listed) <= COUNTED


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize("text", ["kim", "kim.4711", "4711", "<4711@shop.example>", "nobody"])
def test_the_search_field_reads_what_it_shows(text: str) -> None:
    """By an index, however many there are."""
    client = Client()
    client.force_login(links.operator())
    assert read_by(lambda: client.get("/search/", {"q": text})) <= 3 * (search.MOST + 1)


@pytest.mark.usefixtures("_many")
@pytest.mark.parametrize(("name", "most"), [("states", 2 * counts.MOST), ("kinds", 2 * counts.MOST + LOOKED_UP)])
@pytest.mark.parametrize("is_stale", [False, True])
def test_counting_ends_at_its_bound_whatever_the_statistics(name: str, most: int, is_stale: bool) -> None:
    """Even if PostgreSQL believes that a state is common that has no e-mail any more."""
    with transaction.atomic():
        if is_stale:
            Email.objects.filter(state="failed").exclude(kind="order.shipped").update(state="sent", sent_at=Now())
        planner.by_indexes()
        parameters: dict[str, Any] = {"most": counts.MOST, "registered": kinds.names()}
        plan = plan_of("weir.workers.mail", name, parameters)
        assert "Seq Scan" not in {node["Node Type"] for node in plan if node.get("Relation Name") == "weir_mail_email"}
        assert rows_read("weir.workers.mail", name, parameters, "weir_mail_email") <= most
        transaction.set_rollback(True)


@pytest.mark.usefixtures("_many")
def test_counts_are_right_up_to_their_bound() -> None:
    """The partial indexes miss no e-mail."""
    numbers = counts.by_state()
    assert (numbers.pending, numbers.failed, numbers.unknown) == (counts.MOST, counts.MOST, 0)
    [news, shipped] = [kind for kind in counts.of_kinds() if kind.kind in {"news", "order.shipped"}]
    assert (news.waiting, news.failed, shipped.waiting, shipped.failed) == (counts.MOST, counts.MOST, 0, 4)


@pytest.mark.usefixtures("_many")
def test_forgetting_and_purging_read_their_rows_by_indexes() -> None:
    """An address has a few e-mails; a purge begins at the oldest content."""
    parameters: dict[str, Any] = {"address": "KIM.4712@customers.example", "pattern": "x", "instead": "x", "batch": 500}
    assert rows_read("weir.workers.mail", "forget", parameters, "weir_mail_email") <= 3
    assert read_by(lambda: forgetting._to("KIM.4712@customers.example").count()) <= 1
    purge: dict[str, Any] = {"older_than": 0.0, "after": "1970-01-01T00:00Z", "after_id": 0, "batch": 500}
    assert rows_read("weir.workers.mail", "purge_renderings", purge, "weir_mail_email") <= 500
    assert rows_read("weir.workers.mail", "purge_renderings", purge, "weir_mail_rendering") <= 1_001
