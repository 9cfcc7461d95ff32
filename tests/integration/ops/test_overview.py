"""The first page leads to what it counts, and stays small, however many processes there are."""

import re
from datetime import timedelta
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from project.logins import links
from tests.integration.conftest import database_now
from tests.integration.ops.conftest import Forget
from tests.integration.ops.test_acting import signed_in
from weir.ops.views.overview import MOST_PROCESSES
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.processes.models import Process

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]
COUNTED = re.compile(r'<a href="(/[^"]+)">([0-9][0-9,]*) (?:<small>)?([^<]+)')


@pytest.fixture
def operator() -> Client:
    """Return a browser in which the operator is signed in."""
    client = Client()
    client.force_login(links.operator())
    return client


def test_of_many_processes_those_with_a_problem_have_a_row(operator: Client) -> None:
    """The others are counted by kind; a silent one is never among them while there is room."""
    for number in range(MOST_PROCESSES + 6):
        Process.objects.create(kind="fetcher", name=f"fetcher.{number:03}@host", host="host", pid=number)
    silent_since = database_now() - timedelta(seconds=30)
    Process.objects.create(kind="ticks", name="ticks@host", host="host", pid=999, turned_at=silent_since)

    page = operator.get("/").text

    assert page.count("@host</th>") == MOST_PROCESSES
    assert page.index("ticks@host</th>") < page.index("fetcher.000@host</th>")
    assert "And 7 more: 7 fetcher alive." in page


def test_each_of_a_few_processes_has_a_row(operator: Client) -> None:
    """And nothing is said about others."""
    for number in range(MOST_PROCESSES):
        Process.objects.create(kind="fetcher", name=f"fetcher.{number:03}@host", host="host", pid=number)
    page = operator.get("/").text
    assert page.count("@host</th>") == MOST_PROCESSES
    assert "more:" not in page


def have_fetches() -> None:
    """Create one fetch in each state, two that failed alike, and as many that ended long ago; others wait."""
    now = database_now()
    request_fetches(f"http://{number}.example/" for number in range(16))
    ids = list(Fetch.objects.order_by("pk").values_list("pk", flat=True))
    held = {"slot_id": 1, "lease_until": now}
    changes: list[dict[str, Any]] = [{"state": state, **held} for state in ("reserved", "running")]
    for ended_at in (now - timedelta(minutes=5), now - timedelta(hours=2)):
        ended: dict[str, Any] = {"finished_at": ended_at}
        failed = [
            {"state": "failed", "error": error, **ended} for error in ("refused", "refused", "robots.txt: refused")
        ]
        changes += [{"state": "done", "status_code": 200, **ended}, {"state": "cancelled", **ended}, *failed]
    for id_, change in zip(ids, changes, strict=False):
        Fetch.objects.filter(pk=id_).update(**change)


def have_sites() -> None:
    """Create, for each state in which nothing starts, a site with a fetch and a site without."""
    for to_come in (True, False):
        names = [f"{state}-{'busy' if to_come else 'idle'}.example" for state in ("a", "b", "c", "d", "d2")]
        for name in names:
            site_settings.set_rate(name, "1/s")
        if to_come:
            request_fetches(f"http://{name}/" for name in names)
        site_settings.pause(names[0])
        site_settings.back_off(names[1], 600)
        site_settings.rest(names[2], 600, reason="its quota is used up")
        for name in names[3:]:
            site_settings.back_off(name, 600, error="no server listens there")
    waits = Fetch.objects.filter(state="queued").values("site")
    Site.objects.exclude(pk__in=waits).update(has_backlog=False)  # as dispatch does


def have_emails() -> None:
    """Create e-mails in each state that the page counts, and as many that ended long ago."""
    now = database_now()
    told = {"phase": "after dot", "last_reply": "reset by peer"}
    states: list[dict[str, Any]] = [
        {"state": "pending"},
        {"state": "claimed", "claim_token": uuid4(), "claimed_until": now},
        *[{"state": "sending", "claim_token": uuid4(), "sending_since": now}] * 2,
        *[{"state": "unknown", "claim_token": uuid4(), "sending_since": now, **told}] * 3,
    ]
    for ended_at in (now - timedelta(minutes=5), now - timedelta(hours=2)):
        states += [{"state": "sent", "sent_at": ended_at, "ended_at": ended_at}] * 4
        states += [{"state": "failed", "last_reply": "550 No", "ended_at": ended_at}] * 2
    for number, state in enumerate(states):
        Email.objects.create(kind="note", key=str(number), message_id=f"<{number}@x>", recipient="kim@x.test", **state)


def listed(client: Client, path: str) -> int:
    """Return how many rows the list at this path shows."""
    return client.get(path).text.partition('id="list"')[2].count('<tr><th scope="row">')


def test_each_number_leads_to_the_list_that_it_counts(operator: Client) -> None:
    """The list has as many rows, of whatever else there is."""
    have_fetches()
    have_sites()
    have_emails()
    led = [(unescape(path), int(number), words) for path, number, words in COUNTED.findall(operator.get("/").text)]
    assert [(number, words) for path, number, words in led if path != "/unread/"] == [
        (1, "fetched in the last hour"), (9, "queued"), (1, "reserved"), (1, "running"),
        (3, "failed"), (1, "cancelled"), (2, "refused…"), (1, "robots.txt…"),
        (9, "with fetches to come"), (1, "paused"),
        (2, "unreachable"), (1, "backed off"), (1, "resting"),
        (3, "unknown: a person decides"), (1, "pending"), (1, "claimed"), (2, "sending"), (4, "sent"), (2, "failed"),
    ]  # fmt: skip
    rows = {path: listed(operator, path) for path, _, _ in led if path != "/unread/"}
    assert rows == {path: number for path, number, _ in led if path != "/unread/"}
    assert operator.get("/unread/").status_code == 200


def test_what_failed_is_counted_by_its_cause(operator: Client) -> None:
    """By what the errors have in common; each cause leads to its fetches."""
    errors = [
        *["the site answered 503 (attempt 5 of 5)"] * 3,
        "the site answered 500 (attempt 5 of 5)",
        "connection refused by 192.0.2.7 port 9 (ECONNREFUSED): no server listens there (attempt 5 of 5)",
        "connection refused by ::1 port 9 (ECONNREFUSED): no server listens there (attempt 5 of 5)",
        "connection refused by ::2 port 9 (ECONNREFUSED): no server listens there (attempt 5 of 5)",
        *["gaierror: [Errno -2] Name or service not known"] * 2,
        "10.0.0.1 is private; WEIR_FETCH_ALLOW_NETS can allow its network",
    ]
    request_fetches(f"http://{number}.example/" for number in range(len(errors)))
    ended_at = database_now() - timedelta(seconds=5)
    for fetch, error in zip(Fetch.objects.order_by("pk"), errors, strict=True):
        Fetch.objects.filter(pk=fetch.pk).update(state="failed", error=error, finished_at=ended_at)

    page = operator.get("/").text

    causes = [(path, number, words) for path, number, words in COUNTED.findall(page) if words.endswith("…")]
    assert [(number, words) for _, number, words in causes] == [
        ("3", "connection refused by…"), ("3", "the site answered 503…"), ("2", "gaierror…"),
    ]  # fmt: skip
    assert [listed(operator, unescape(path)) for path, _, _ in causes] == [3, 3, 2]
    assert '<dt>Last minute</dt><dd><a href="/fetches/?since=1m">0.2 ended a second</a>' in page


def test_the_oldest_due_fetch_is_one_click_away(operator: Client) -> None:
    """Its page says why it waits."""
    request_fetches(["http://a.example/", "http://b.example/"])
    oldest = Fetch.objects.order_by("-pk")[0]
    Fetch.objects.filter(pk=oldest.pk).update(not_before=database_now() - timedelta(minutes=5))
    assert f'<a href="/fetches/{oldest.pk}/">the oldest due for 5m 0' in operator.get("/").text


def needs(page: str) -> list[tuple[str, str]]:
    """Return the links of all problems: their paths and words."""
    return re.findall(r'<a href="([^"]+)">([^<]+)', page.partition('class="needs"')[2].partition("</section>")[0])


def test_each_problem_leads_to_where_somebody_does_something_about_it() -> None:
    """The worst sites and kinds are named: what has waited longest, and what there is most of."""
    operator = signed_in("weir_ratelimit.change_site")
    names = [f"{letter}.example" for letter in "abcdefg"]
    for name in names:
        site_settings.set_rate(name, "1/s")
    request_fetches(f"http://{name}/" for name in names)
    for minutes, fetch in enumerate(Fetch.objects.order_by("pk"), 1):
        Fetch.objects.filter(pk=fetch.pk).update(not_before=database_now() - timedelta(minutes=minutes))
    for name in names[:4]:
        site_settings.pause(name)
    long_ago = database_now() - timedelta(hours=2)
    unknown = {"state": "unknown", "sending_since": long_ago, "phase": "after dot", "last_reply": "reset by peer"}
    for number, kind in enumerate(["note", "a&b/c d", "note", "news", "list", "list"]):
        Email.objects.create(kind=kind, key=str(number), message_id=str(number), claim_token=uuid4(), **unknown)
    Email.objects.create(kind="news", key="late", message_id="late", next_attempt_at=long_ago)
    stalled = Fetch.objects.get(site__name="e.example")
    processes = [("#processes", "The processes")]

    led = needs(operator.get("/").text)

    assert led == [
        *processes,
        (f"/fetches/{stalled.pk}/", f"Why fetch {stalled.pk} waits"),
        *((f"/sites/{name}/", f"The site {name}") for name in ("g.example", "f.example", "e.example")),
        ("/sites/?state=paused&amp;fetches=to+come", "The paused sites with fetches to come"),
        *((f"/sites/{name}/resume/", f"Resume {name}") for name in ("d.example", "c.example", "b.example")),
        ("/emails/?state=unknown&amp;kind=", "The unknown e-mails"),
        ("/emails/?state=unknown&amp;kind=list", "The unknown e-mails of list"),
        ("/emails/?state=unknown&amp;kind=note", "The unknown e-mails of note"),
        ("/emails/?state=unknown&amp;kind=a%26b%2Fc+d", "The unknown e-mails of a&amp;b/c d"),
        ("/emails/?state=pending&amp;kind=", "The pending e-mails"),
        ("/emails/?state=pending&amp;kind=news", "The pending e-mails of news"),
    ]
    operator.force_login(User.objects.create_superuser("root"))  # may act, too
    assert [path for path, _ in led if path[0] == "/" and operator.get(unescape(path)).status_code != 200] == []


def test_the_runbook_of_a_problem_is_named_and_linked_where_it_is_published(
    operator: Client, forget: Forget, settings: Settings
) -> None:
    """By any suffix."""
    assert "<code>docs/runbooks.md#weirqueuesilent</code>" in operator.get("/").text
    settings.WEIR_DOCS_URL = "https://docs.example/weir/*.html"
    forget()
    link = '<a href="https://docs.example/weir/runbooks.html#weirqueuesilent">Runbook: WeirQueueSilent</a>'
    assert link in operator.get("/").text


def test_no_number_of_failures_is_cut_by_the_many_that_are_done(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that are done, there are more than were looked at."""
    monkeypatch.setattr("weir.workers.overview.overview.MOST", 3)
    ids = [fetch.pk for fetch in request_fetches(f"http://{number}.example/" for number in range(8))]
    now = database_now()
    Fetch.objects.filter(pk__in=ids[:3]).update(
        state="failed", error="no answer", finished_at=now - timedelta(minutes=9)
    )
    Fetch.objects.filter(pk__in=ids[3:6]).update(state="done", status_code=200, finished_at=now - timedelta(minutes=1))
    Fetch.objects.filter(pk__in=ids[6:]).update(state="cancelled", finished_at=now)
    page = operator.get("/").text
    for said in (">2+ <small>fetched", ">3 failed<", ">2 cancelled<", "3 no answer…"):
        assert said in page, said
