"""Whoever acts on a site, an e-mail or a kind has seen the version that there is, by whichever door."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.db.models.functions import Now
from django.test import Client

from tests import programs
from tests.integration.conftest import Eventually, WaitersOf
from tests.integration.ops.test_acting import opened, signed_in
from weir.ops import pages
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.audit import acting
from weir.workers.audit.models import Entry
from weir.workers.fetches.actions import sites
from weir.workers.mail.models import Email, PausedKind
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "a.example"
KIND = "order.shipped"
WHY = {"why": "They asked."}
CHANGED = "was changed meanwhile"


@pytest.fixture(autouse=True)
def email() -> Email:
    """Make a site, and an unknown e-mail."""
    site_settings.set_rate(HOST, "3/s")
    shipping.ship(Order.objects.create(number="1", customer_email="kim@example.com").pk)
    Email.objects.update(
        state="unknown", phase="after dot", last_reply="lost", claim_token=uuid4(), sending_since=Now(), ended_at=Now()
    )
    return Email.objects.get()


@pytest.fixture
def browser() -> Client:
    return signed_in("weir_ratelimit.change_site", "weir_mail.resolve_email", "weir_fetches.change_robotsfile")


def pause_site() -> None:
    site_settings.pause(HOST, timedelta(hours=1))


def pause_kind() -> None:
    PausedKind.objects.create(kind=KIND, who="eve", why="Why not?")


def fail_again() -> None:
    Email.objects.update(state="failed", claim_token=None, sending_since=None, ended_at=Now())


@pytest.mark.parametrize(
    ("path", "values", "change"),
    [
        ("/sites/a.example/set/", {"rate": "9/s"}, pause_site),
        ("/sites/a.example/pause/", {}, pause_site),
        ("/sites/a.example/resume/", {}, pause_site),
        ("/emails/kinds/order.shipped/pause/", WHY, pause_kind),
        ("/emails/kinds/order.shipped/resume/", WHY, pause_kind),
        ("/emails/{}/arrived/", WHY, fail_again),
        ("/emails/{}/resend/", WHY, fail_again),
        ("/emails/{}/give-up/", WHY, fail_again),
    ],
)
def test_what_was_changed_since_the_page_was_shown_is_left_alone(
    browser: Client, email: Email, path: str, values: dict[str, str], change: Callable[[], None]
) -> None:
    """It is told when the form is opened, and when a form that was open is sent; a form without version is refused."""
    path = path.format(email.pk)
    before = opened(browser, path)
    change()
    late = browser.get(path, {"seen": before["seen"]})
    sent = browser.post(path, {**before, **values})
    for answer in (late, sent):
        assert (answer.status_code, CHANGED in answer.text, 'class="act"' in answer.text) == (409, True, False)
    assert browser.post(path, values).status_code == 400
    assert not Entry.objects.exists()
    assert browser.get(path, {"seen": opened(browser, path)["seen"]}).status_code == 200


def test_pages_link_to_forms_with_the_version_that_they_show(browser: Client, email: Email) -> None:
    """To those that are sent with a version. A recipient is named by the address, and robots.txt has no version."""
    linked: dict[bool, set[str]] = {True: set(), False: set()}
    for page in (f"/sites/{HOST}/", f"/emails/{email.pk}/", "/emails/"):
        for link, query in re.findall(rf'href="({page}(?:[\w.-]+/)+)(\?[^"]*)?"', browser.get(page).text):
            if (form := browser.get(link).context.get("form")) is not None:
                assert query == (f"?seen={form.initial['seen']}" if "seen" in form.fields else ""), link
                linked[bool(query)].add(link)
    assert linked[False] == {f"/emails/{email.pk}/suppress/", f"/sites/{HOST}/ask-robots/"}
    assert linked[True] >= {
        f"/sites/{HOST}/pause/",
        f"/emails/{email.pk}/resend/",
        f"/emails/kinds/{KIND}/pause/",
    }


def test_a_back_off_is_no_change(browser: Client) -> None:
    """It begins and ends by itself: an operator would never get an act through."""
    before = opened(browser, f"/sites/{HOST}/pause/")
    Site.objects.update(backed_off_until=Now(), backoff_level=3)
    assert browser.post(f"/sites/{HOST}/pause/", before).status_code == 302


def test_a_second_decision_is_refused_though_the_email_has_not_ended(browser: Client, email: Email) -> None:
    """The first one had it sent again, so it waits, as one may that was never tried."""
    path = f"/emails/{email.pk}/cancel/"
    assert browser.post(f"/emails/{email.pk}/resend/", {**opened(browser, path), **WHY}).status_code == 302
    waits = opened(browser, path)
    correct = {**opened(browser, f"/emails/{email.pk}/correct/"), **WHY}
    assert browser.post(f"/emails/{email.pk}/correct/", correct).status_code == 302
    assert browser.post(path, {**waits, **WHY}).status_code == 409


@pytest.mark.parametrize(
    ("path", "values", "said"),
    [
        ("/sites/a.example/set/", {}, "it was like that already"),
        ("/sites/a.example/resume/", {}, "it was like that already"),
        ("/sites/a.example/ask-robots/", {}, "No robots.txt of this site is known"),
        ("/emails/kinds/order.shipped/resume/", WHY, "it was like that already"),
    ],
)
def test_what_changes_nothing_says_so(path: str, values: dict[str, str], said: str) -> None:
    browser = signed_in("weir_ratelimit.change_site", "weir_mail.resolve_email", "weir_fetches.change_robotsfile")
    answer = browser.post(path, {**opened(browser, path), **values})
    assert (answer.status_code, said in answer.content.decode()) == (409, True)
    assert not Entry.objects.exists()


def test_who_acted_is_told_what_was_done(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only that person, for some minutes, and as text."""
    to = browser.post(f"/sites/{HOST}/set/", {**opened(browser, f"/sites/{HOST}/set/"), "rate": "9/s"}).headers[
        "Location"
    ]
    done = "Done:</b> change settings, a.example (rate: 3/s → 9/s)."
    assert done in browser.get(to).content.decode()
    assert "Done:" not in browser.get(f"/sites/{HOST}/").content.decode()
    assert "Done:" not in signed_in(name="eve").get(to).content.decode()
    for number in ("0", str(Entry.objects.get().pk), "x", "9" * 30, "٣", "1' OR 1=1", "\0"):
        assert "Done:" not in browser.get(f"/sites/{HOST}/", {"done": number}).content.decode()
    monkeypatch.setattr(pages, "SAID_FOR", timedelta(seconds=-1))
    assert "Done:" not in browser.get(to).content.decode()


def test_who_acted_is_told_no_longer_when_another_has_acted_since(browser: Client) -> None:
    """The page would say that it was done, above what is so now."""
    path = f"/sites/{HOST}/pause/"
    form = browser.get(path).context["form"]
    to = browser.post(path, {name: value for name, value in form.initial.items() if value})["Location"]
    assert "Done:" in browser.get(to).text
    sites.resume(acting.of_shell("ada"), HOST)
    assert "Done:" not in browser.get(to).text


def test_of_two_who_pause_a_kind_at_once_the_second_is_told_that_it_is_paused(
    browser: Client, other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """There was no row to lock when its version was compared."""
    path = f"/emails/kinds/{KIND}/pause/"
    sent = {**opened(browser, path), **WHY}
    other_connection.execute(
        "INSERT INTO weir_mail_pausedkind (kind, who, why, paused_at) VALUES (%s, 'eve', 'Why not?', now())", [KIND]
    )

    def post() -> Any:
        try:
            return browser.post(path, sent)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(post)
        eventually(lambda: waiters(other_connection), "the second one waits for the first")
        other_connection.commit()
    assert (answer.result().status_code, "the kind is paused already" in answer.result().text) == (409, True)
    assert (PausedKind.objects.get().who, Entry.objects.exists()) == ("eve", False)


def said(*arguments: str) -> dict[str, object]:
    written = StringIO()
    call_command(*arguments, "--json", stdout=written)
    found: dict[str, object] = json.loads(written.getvalue())
    return found


def test_commands_take_the_version_that_they_print(email: Email) -> None:
    site, of_email = (
        str(said(*shown)["version"]) for shown in (("sites", "show", HOST), ("emails", "show", str(email.pk)))
    )
    [kind] = [str(each["version"]) for each in said("emails", "kinds")["kinds"] if each["kind"] == KIND]  # type: ignore[attr-defined]
    acts = (
        (site, ("sites", "pause", HOST)),
        (site, ("sites", "set", HOST, "9/s")),
        (site, ("sites", "resume", HOST)),
        (of_email, ("emails", "resolve", str(email.pk), "--resend", "--why", "It was lost.")),
        (kind, ("emails", "pause", KIND, "--why", "It is wrong.")),
    )
    for _version, act in acts:
        with pytest.raises(CommandError, match=CHANGED):
            said(*act, "--seen", "0" * 32)
    assert not Entry.objects.exists()
    for version, act in (acts[0], acts[3], acts[4]):
        said(*act, "--seen", version)
    with pytest.raises(CommandError, match="name one"):
        said("emails", "cancel", "1", "2", "--why", "No.", "--seen", of_email)
    assert Entry.objects.count() == 3


def test_programs_name_it_in_if_match(email: Email) -> None:
    program = programs.Program(programs.token())
    [kind] = [each["etag"] for each in program.call("GET", "/email-kinds").json()["kinds"] if each["kind"] == KIND]
    resolution = {"act": "arrived", "why": "It is there."}
    acts = (
        (program.call("GET", f"/sites/{HOST}").headers["ETag"], "PUT", f"/sites/{HOST}/pause", WHY, 204),
        (
            program.call("GET", f"/emails/{email.pk}").headers["ETag"],
            "POST",
            f"/emails/{email.pk}/resolutions",
            resolution,
            201,
        ),
        (kind, "PUT", f"/email-kinds/{KIND}/pause", WHY, 204),
    )
    for etag, method, path, body, status in acts:
        other = program.call(method, path, body, headers={"If-Match": f'"{"0" * 32}"'})
        assert (other.status_code, other.json()["type"].endswith("changed")) == (412, True)
        assert program.call(method, path, body, headers={"If-Match": etag}).status_code == status
    for path in (f"/sites/{HOST}/pause", f"/email-kinds/{KIND}/pause"):
        late = program.call("DELETE", f"{path}?why=No", headers={"If-Match": kind})
        assert late.status_code == 412
    assert Entry.objects.exclude(action="tokens.create").count() == 3


def test_a_site_that_does_not_exist_has_a_version_of_its_own(email: Email) -> None:  # noqa: ARG001
    """Whoever has seen that there is none changes none that was made since."""
    seen = sites.version_of(None)
    assert seen != sites.version_of(Site.objects.get())
