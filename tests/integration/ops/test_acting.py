"""What operators change on the pages: who may, what is refused, and what is recorded."""

import re
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from pytest_django import Settings

from tests.integration.ops.conftest import Forget
from weir.notifications.inbox.writing import notify
from weir.notifications.models import UnreadCount
from weir.ops import snapshots
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.audit.models import Entry
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "a.example"


@pytest.fixture(autouse=True)
def _site() -> None:
    site_settings.set_rate(HOST, "3/s")


def signed_in(*permissions: str, name: str = "ada", pages: bool = True) -> Client:
    """Return a browser whose user has these permissions, and may see the pages."""
    user = User.objects.create_user(name)
    for permission in (*(["weir_ops.view"] if pages else []), *permissions):
        app, codename = permission.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    browser = Client()
    browser.force_login(user)
    return browser


def opened(browser: Client, path: str) -> dict[str, str]:
    """Return the values of the form at this path."""
    initial = browser.get(path).context["form"].initial
    return {name: value for name, value in initial.items() if value is not None}


def test_a_site_is_paused_and_the_page_says_who_did_it() -> None:
    browser = signed_in("weir_ratelimit.change_site")
    path = f"/sites/{HOST}/pause/"
    answer = browser.post(path, {**opened(browser, path), "duration": "10m", "why": "The owner called."})
    entry = Entry.objects.get()
    to, _, query = answer.headers["Location"].partition("?")
    assert (answer.status_code, to, query.startswith(f"done={entry.pk}%3A")) == (302, f"/sites/{HOST}/", True)
    assert Site.objects.get(name=HOST).paused_until
    assert (entry.actor, entry.door, entry.why) == ("ada", "page", "The owner called.")
    page = browser.get("/audit/", {"target": HOST}).content.decode()
    assert "The owner called." in page
    assert "sites.pause" in page


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (f"/sites/{HOST}/pause/", {}),
        (f"/sites/{HOST}/resume/", {}),
        (f"/sites/{HOST}/ask-robots/", {}),
        ("/fetches/1/cancel/", {}),
        ("/fetches/1/retry/", {}),
        ("/emails/1/arrived/", {"why": "It did."}),
        ("/emails/kinds/order.shipped/pause/", {"why": "It is wrong."}),
        ("/fetches/retry/", {"expected": "1"}),
        ("/unread/reconcile/", {"user": "1"}),
    ],
)
def test_without_the_permission_it_is_refused(path: str, values: dict[str, str]) -> None:
    browser = signed_in()
    assert browser.get(path).status_code == 403
    answer = browser.post(path, values)
    assert answer.status_code == 403
    assert "ada lacks the permission" in answer.content.decode()
    assert not Entry.objects.exists()


def test_nobody_acts_without_signing_in() -> None:
    answer = Client().post(f"/sites/{HOST}/pause/")
    assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (302, "/sign-in/")


def test_a_forged_form_is_refused() -> None:
    user = User.objects.create_superuser("root")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    assert browser.post(f"/sites/{HOST}/pause/").status_code == 403
    assert not Entry.objects.exists()


def test_read_only(settings: Settings) -> None:
    settings.WEIR_OPS_READ_ONLY = True
    answer = signed_in("weir_ratelimit.change_site").post(f"/sites/{HOST}/pause/")
    assert answer.status_code == 403
    assert "WEIR_OPS_READ_ONLY is set" in answer.content.decode()


def test_settings_are_changed_only_as_they_were_seen() -> None:
    browser = signed_in("weir_ratelimit.change_site")
    values = opened(browser, f"/sites/{HOST}/set/") | {"rate": "5/s"}
    assert browser.post(f"/sites/{HOST}/set/", values).status_code == 302
    answer = browser.post(f"/sites/{HOST}/set/", {**values, "rate": "9/s"})
    assert answer.status_code == 409
    assert "was changed meanwhile" in answer.content.decode()
    assert Site.objects.get(name=HOST).rate == "5/s"


def test_a_wrong_value_is_said_beside_its_field() -> None:
    browser = signed_in("weir_ratelimit.change_site")
    answer = browser.post(f"/sites/{HOST}/pause/", {"duration": "soon"})
    assert answer.status_code == 400
    assert "soon" in answer.content.decode()


def test_a_fetch_is_cancelled_once() -> None:
    fetch = request_fetch(f"http://{HOST}/")
    browser = signed_in("weir_fetches.change_fetch")
    assert browser.post(f"/fetches/{fetch.pk}/cancel/").status_code == 302
    assert Fetch.objects.get(pk=fetch.pk).state == FetchState.CANCELLED
    answer = browser.post(f"/fetches/{fetch.pk}/cancel/")
    assert (answer.status_code, "It is too late" in answer.content.decode()) == (409, True)


def test_a_failed_fetch_is_retried() -> None:
    fetch = request_fetch(f"http://{HOST}/")
    Fetch.objects.update(state=FetchState.FAILED, error="lost", finished_at=Now())
    assert signed_in("weir_fetches.change_fetch").post(f"/fetches/{fetch.pk}/retry/").status_code == 302
    assert Fetch.objects.get(pk=fetch.pk).state == FetchState.QUEUED


def fail(*paths: str) -> None:
    """Store a failed fetch of each path."""
    request_fetches([f"http://{HOST}{path}" for path in paths])
    Fetch.objects.update(state=FetchState.FAILED, error="refused", finished_at=Now())


def test_failed_fetches_of_a_list_are_retried_at_most_as_many_as_were_seen() -> None:
    fail("/1", "/2", "/3")
    Fetch.objects.filter(url=f"http://{HOST}/3").update(error="timed out")
    browser = signed_in("weir_fetches.change_fetch")
    path = f"/fetches/retry/?site={HOST}&error=REFUSED"
    assert browser.get(path).context["form"].initial == {"expected": 2}
    answer = browser.post(path, {"expected": "1"})
    assert (answer.status_code, "nothing was done" in answer.content.decode()) == (409, True)
    assert not Fetch.objects.exclude(state=FetchState.FAILED).exists()
    assert browser.post(path, {"expected": "2", "why": "It answers again."}).status_code == 302
    assert list(Fetch.objects.failed().values_list("url", flat=True)) == [f"http://{HOST}/3"]
    entry = Entry.objects.get()
    assert (entry.target, entry.why) == (f"fetches site {HOST}, error REFUSED", "It answers again.")


@pytest.mark.parametrize(("query", "sentence"), [("?site=b.example", "b.example"), ("?status=x", "from 100 to 999")])
def test_a_wrong_filter_of_a_list_is_refused(query: str, sentence: str) -> None:
    fail("/1")
    browser = signed_in("weir_fetches.change_fetch")
    for answer in (browser.get(f"/fetches/retry/{query}"), browser.post(f"/fetches/retry/{query}", {"expected": "9"})):
        assert (answer.status_code, sentence in answer.content.decode()) == (409, True)
    assert Fetch.objects.failed().count() == 1


def test_a_count_that_takes_too_long_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count among millions of failed fetches, by what an error contains."""
    monkeypatch.setattr("weir.ops.views.acting.LONGEST_COUNT_S", 0.001)
    fail(*(f"/{number}" for number in range(1_000)))
    Fetch.objects.update(error="no" * 5_000)
    answer = signed_in("weir_fetches.change_fetch").get("/fetches/retry/?error=yes")
    assert (answer.status_code, "manage.py fetches retry --dry-run" in answer.content.decode()) == (409, True)


@pytest.mark.usefixtures("valkey")  # without the deltas of tests before
def test_a_wrong_number_is_reconciled() -> None:
    notify(17, "news", "Something is new.")
    call_command("flush_unread", verbosity=0)
    UnreadCount.objects.update(unread_count=6)
    browser = signed_in("weir_notifications.change_reconciliation")
    assert browser.post("/unread/reconcile/", {"user": "17", "why": "They asked."}).status_code == 302
    assert UnreadCount.objects.get().unread_count == 1
    assert (Entry.objects.get().target, Entry.objects.get().why) == ("user 17", "They asked.")
    assert browser.post("/unread/reconcile/", {"user": ""}).status_code == 400


def test_an_email_is_resolved_with_a_reason() -> None:
    order = Order.objects.create(number="1", customer_email="kim@example.com")
    shipping.ship(order.pk)
    email = Email.objects.get()
    browser = signed_in("weir_mail.resolve_email")
    seen = browser.get(f"/emails/{email.pk}/cancel/").context["form"].initial
    assert browser.post(f"/emails/{email.pk}/cancel/", {**seen, "why": ""}).status_code == 400
    assert browser.post(f"/emails/{email.pk}/cancel/", {**seen, "why": "Nobody wants it."}).status_code == 302
    assert Email.objects.get().state == "cancelled"
    assert f"/emails/{email.pk}/resend/" in browser.get(f"/emails/{email.pk}/").content.decode()


def test_a_settled_email_has_ended_as_somebody_has_said(forget: Forget) -> None:
    """Not with the last reply, which belongs to an attempt whose end was not known."""
    shipping.ship(Order.objects.create(number="1", customer_email="kim@example.com").pk)
    Email.objects.update(
        state="unknown", claim_token=uuid4(), sending_since=Now(), phase="after dot", last_reply="closed unexpectedly"
    )
    email = Email.objects.get()
    resolving.resolve(email.pk, Act.ARRIVED, "robin", "It is in the log.")
    path = f"/emails/{email.pk}/"
    browser = signed_in()
    assert "<li>It has ended: sent, as robin has said.</li>" in browser.get(path).content.decode()
    Email.objects.update(state="failed", sent_at=None)  # as if a mailer had ended it later
    forget()
    assert "<li>It has ended: failed: closed unexpectedly.</li>" in browser.get(path).content.decode()


def test_an_email_that_has_become_unknown_is_not_sent_again_unseen() -> None:
    """It had failed when the form was opened. Another operator sent it again, and whether that arrived is not known."""
    shipping.ship(Order.objects.create(number="1", customer_email="kim@example.com").pk)
    Email.objects.update(state="failed", last_reply="550 no such recipient", ended_at=Now())
    path = f"/emails/{Email.objects.get().pk}/resend/"
    browser = signed_in("weir_mail.resolve_email")
    seen = browser.get(path).context["form"].initial
    Email.objects.update(state="unknown", phase="after dot", claim_token=uuid4(), sending_since=Now(), ended_at=Now())
    answer = browser.post(path, {**seen, "why": "It was refused."})
    assert (answer.status_code, "meanwhile" in answer.content.decode()) == (409, True)
    assert Email.objects.get().state == "unknown"
    assert browser.post(path, {**browser.get(path).context["form"].initial, "why": "At my risk."}).status_code == 302
    assert Email.objects.get().state == "pending"


def test_an_email_that_is_not_there_has_no_form() -> None:
    answer = signed_in("weir_mail.resolve_email").get("/emails/4711/resend/")
    assert (answer.status_code, "There is no e-mail 4711." in answer.content.decode()) == (409, True)


def test_a_number_that_is_too_large_is_said_beside_its_field() -> None:
    browser = signed_in("weir_ratelimit.change_site")
    values = opened(browser, f"/sites/{HOST}/set/")
    assert browser.post(f"/sites/{HOST}/set/", {**values, "max_concurrency": "99999999999"}).status_code == 400


def test_statuses_that_refuse_are_set_in_a_form_and_shown_on_the_page() -> None:
    """As they are written; an empty field is the default, and the form says beside the field what is not a status."""
    browser = signed_in("weir_ratelimit.change_site", "weir_ops.view")
    path = f"/sites/{HOST}/set/"

    def sent(statuses: str) -> int:
        form = browser.get(path).context["form"]
        values = {name: value for name, value in form.initial.items() if value}
        return browser.post(path, {**values, "obeys_robots": "unknown", "refusing": statuses}).status_code

    assert sent("403; 999") == 400
    assert sent("403, 999") == 302
    assert Site.objects.get(name=HOST).refusing == [403, 429, 503, 999]
    assert 'value="403, 429, 503, 999"' in browser.get(path).content.decode()
    assert "403, 429, 503, 999" in browser.get(f"/sites/{HOST}/").content.decode()
    assert sent("") == 302
    assert Site.objects.get(name=HOST).refusing is None


def test_headers_are_set_in_a_form_and_shown_on_the_page() -> None:
    """A line for each."""
    browser = signed_in("weir_ratelimit.change_site", "weir_ops.view")
    path = f"/sites/{HOST}/set/"

    def sent(lines: str) -> Any:
        form = browser.get(path).context["form"]
        values = {name: value for name, value in form.initial.items() if value}
        return browser.post(path, {**values, "obeys_robots": "unknown", "headers": lines})

    refused = sent("Authorization: Bearer x")
    assert (refused.status_code, "must name the secret of Authorization" in refused.text) == (400, True)
    assert sent("Authorization: Bearer {secret:SHOP}\r\n\r\nX-A: <b>\r\n").status_code == 302
    assert Site.objects.get(name=HOST).headers == {"Authorization": "Bearer {secret:SHOP}", "X-A": "<b>"}
    assert "X-A: &lt;b&gt;\nAuthorization: Bearer {secret:SHOP}</textarea>" in browser.get(path).text
    assert "X-A: &lt;b&gt;" in browser.get(f"/sites/{HOST}/").text
    assert sent("").status_code == 302
    assert Site.objects.get(name=HOST).headers is None


def test_a_query_is_set_in_a_form_and_shown_on_the_page() -> None:
    """As headers are."""
    browser = signed_in("weir_ratelimit.change_site", "weir_ops.view")
    path = f"/sites/{HOST}/set/"
    values = {name: value for name, value in browser.get(path).context["form"].initial.items() if value}
    sent = [browser.post(path, {**values, "obeys_robots": "unknown", "query": text}) for text in ("a", "a={secret:A}")]
    assert [answer.status_code for answer in sent] == [400, 302]
    assert "with an equals sign" in sent[0].text
    assert "a={secret:A}</textarea>" in browser.get(path).text
    assert "a={secret:A}" in browser.get(f"/sites/{HOST}/").text


def test_a_network_is_set_in_a_form_and_shown_on_the_page() -> None:
    """As headers are."""
    browser = signed_in("weir_ratelimit.change_site", "weir_ops.view")
    path = f"/sites/{HOST}/set/"
    values = {name: value for name, value in browser.get(path).context["form"].initial.items() if value}
    given = ("ca", "proxy=http://a.example:3128", "ca={secret:A}")
    sent = [browser.post(path, {**values, "obeys_robots": "unknown", "network": text}) for text in given]
    assert [answer.status_code for answer in sent] == [400, 400, 302]
    assert "WEIR_FETCH_PROXIES allows" in sent[1].text
    assert "ca={secret:A}</textarea>" in browser.get(path).text
    assert "ca={secret:A}" in browser.get(f"/sites/{HOST}/").text


def test_the_page_of_a_site_says_what_it_answered() -> None:
    """A stranger's text is text."""
    browser = signed_in("weir_ops.view")
    site_settings.back_off(HOST, 60, reason="it answered 403 with Retry-After: <b>60</b>")
    for path in (f"/sites/{HOST}/", "/sites/"):
        assert "it answered 403 with Retry-After: &lt;b&gt;60" in browser.get(path).content.decode()


def test_the_page_of_a_site_says_that_a_quota_is_used_up() -> None:
    """It refused nothing."""
    browser = signed_in("weir_ops.view")
    site_settings.rest(HOST, 120, reason="its quota is used up (RateLimit)")
    page = browser.get(f"/sites/{HOST}/").content.decode()
    assert ('<b class="warn">Rests</b> until' in page, "as its quota is used up (RateLimit)" in page) == (True, True)
    assert "resting" in browser.get("/sites/?state=resting").content.decode()


def test_a_site_that_is_not_there_has_no_settings_to_change() -> None:
    browser = signed_in("weir_ratelimit.change_site")
    values = {"rate": "1/s", "burst": "1", "obeys_robots": "unknown"}
    answer = browser.get("/sites/b.example/set/")
    assert (answer.status_code, "b.example" in answer.content.decode()) == (409, True)
    answer = browser.post("/sites/b.example/set/", values)
    assert (answer.status_code, "Open this form anew" in answer.content.decode()) == (400, True)
    assert browser.post("/sites/b.example/set/", {**values, "seen": "it"}).status_code == 409
    assert not Site.objects.filter(name="b.example").exists()


@pytest.mark.parametrize("path", [f"/sites/{HOST}/explode/", "/fetches/1/explode/", "/emails/1/explode/"])
def test_what_there_is_not(path: str) -> None:
    assert signed_in().get(path).status_code == 404


def test_the_last_reasons_are_offered() -> None:
    """Those of the same action, each once, the newest first."""
    browser = signed_in("weir_ratelimit.change_site")
    for number, why in enumerate(["The owner called.", "It is slow.", "", "The owner called.", "<b>&"]):
        path = f"/sites/{HOST}/{'resume' if number % 2 else 'pause'}/"
        assert browser.post(path, {**opened(browser, path), "why": why}).status_code == 302
    page = browser.get(f"/sites/{HOST}/pause/").content.decode()
    assert re.findall('<option value="([^"]*)">', page) == ["&lt;b&gt;&amp;", "The owner called."]


def test_reasons_that_are_not_found_in_time_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_action: str) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60)")
        return ["Too late."]

    monkeypatch.setattr(snapshots, "STATEMENT_S", 0.05)
    monkeypatch.setattr("weir.workers.audit.listing.last_reasons", slow)
    answer = signed_in("weir_ratelimit.change_site").get(f"/sites/{HOST}/pause/")
    assert (answer.status_code, 'list="reasons"' in answer.text, "Too late." in answer.text) == (200, True, False)


def test_the_page_of_a_site_says_its_words(forget: Forget) -> None:
    """The fates of slots, and Resume only where there is something to resume."""
    browser = signed_in("weir_ratelimit.change_site")
    page = browser.get(f"/sites/{HOST}/").text
    assert "Void: recalled by a pause" in page
    assert ">Pause</a>" in page
    assert ">Resume</a>" not in page
    site_settings.pause(HOST)
    forget()
    assert ">Resume</a>" in browser.get(f"/sites/{HOST}/").text


def test_a_form_says_what_is_left_to_the_setting_of_all() -> None:
    """In words of Weir's, and where the reason goes."""
    browser = signed_in("weir_ratelimit.change_site")
    page = browser.get(f"/sites/{HOST}/set/").text
    assert ">as set for all</option>" in page
    assert ">Unknown</option>" not in page
    assert "It stays in the audit trail." in page


def test_a_fetch_without_an_answer_has_no_list_of_headers() -> None:
    browser = signed_in()
    page = browser.get(f"/fetches/{request_fetch(f'http://{HOST}/').pk}/").text
    assert "<p>No headers are stored.</p>" in page
