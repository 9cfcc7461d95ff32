"""The recipient of an e-mail on the suppression list: what its page says, who may change it, and what is recorded."""

import pytest
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from tests.integration.ops.test_acting import signed_in
from weir.workers.audit.models import Entry
from weir.workers.mail import suppression
from weir.workers.mail.models import Email, MailAct, Suppression
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)
KIM = "kim@example.com"
READS, ACTS = "weir_mail.view_email", "weir_mail.resolve_email"
LIVE = {"X-Weir-Live": "1"}


def queued() -> Email:
    """Queue an e-mail."""
    shipping.ship(Order.objects.create(number="1", customer_email=KIM).pk)
    return Email.objects.get()


def post(browser: Client, email: Email, what: str, **values: str) -> HttpResponse:
    """Send the form as it was opened."""
    seen = browser.get(f"/emails/{email.pk}/{what}/").context["form"].initial
    return browser.post(f"/emails/{email.pk}/{what}/", {**seen, "why": "They asked.", **values})  # type: ignore[return-value]


def test_a_recipient_is_suppressed_and_released() -> None:
    """The page says so immediately, why, and since when; the audit trail has no address."""
    email = queued()
    browser = signed_in(ACTS)
    assert "not on it" in browser.get(f"/emails/{email.pk}/").text
    browser.get(f"/emails/{email.pk}/", headers=LIVE)
    answer = post(browser, email, "suppress", why=f"{KIM} asked.")
    assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, f"/emails/{email.pk}/")
    assert Suppression.objects.get().address == KIM
    for headers in ({}, LIVE):
        page = browser.get(answer["Location"], headers=headers).text
        assert '<b class="warn">Suppressed</b> since <time' in page
        assert f"{KIM} asked." in page
    assert ("/release/" in page, "/suppress/" in page) == (True, False)
    answer = post(browser, email, "release")
    assert not Suppression.objects.exists()
    assert "not on it" in browser.get(answer["Location"], headers=LIVE).text
    entries = Entry.objects.order_by("pk").values_list("actor", "door", "action", "target", "why")
    hashed = suppression.address_hash(KIM)
    assert list(entries) == [
        ("ada", "page", "emails.suppress", hashed, "<recipient> asked."),
        ("ada", "page", "emails.release", hashed, "They asked."),
    ]
    assert [act.what for act in MailAct.objects.order_by("pk")] == ["suppress", "release"]


def test_the_trail_has_no_address_of_an_entry_that_has_none() -> None:
    """The list has a hash alone, and the reason names the address."""
    email = queued()
    suppression.suppress(KIM, "It came back.", keep_address=False)
    assert post(signed_in(ACTS), email, "release", why=f"{KIM} asked.").status_code == 302
    assert [(Entry.objects.get().why, MailAct.objects.get().why)] == [("<recipient> asked.", "<recipient> asked.")]


@pytest.mark.parametrize("what", ["suppress", "release"])
def test_lists_are_not_changed_without_the_permission(what: str) -> None:
    """To read e-mails is not to act on them."""
    email = queued()
    if what == "release":
        suppression.suppress(KIM, "It came back.")
    browser = signed_in(READS)
    assert browser.get(f"/emails/{email.pk}/{what}/").status_code == 403
    answer = browser.post(f"/emails/{email.pk}/{what}/", {"address": KIM, "why": "They asked."})
    assert (answer.status_code, "lacks the permission weir_mail.resolve_email" in answer.text) == (403, True)
    assert (Suppression.objects.exists(), Entry.objects.exists()) == (what == "release", False)


@pytest.mark.parametrize("what", ["suppress", "release"])
def test_lists_are_not_changed_in_read_only_mode(what: str, settings: Settings) -> None:
    email = queued()
    browser = signed_in(ACTS)
    settings.WEIR_OPS_READ_ONLY = True
    answer = browser.post(f"/emails/{email.pk}/{what}/", {"address": KIM, "why": "They asked."})
    assert (answer.status_code, "WEIR_OPS_READ_ONLY is set" in answer.text) == (403, True)
    assert not Suppression.objects.exists()


def test_a_reason_is_asked_for() -> None:
    email = queued()
    browser = signed_in(ACTS)
    assert post(browser, email, "suppress", why="").status_code == 400
    assert not Suppression.objects.exists()


def test_the_form_shows_the_address_and_it_cannot_be_another_one() -> None:
    """One that was redirected meanwhile is not suppressed unseen."""
    email = queued()
    browser = signed_in(ACTS)
    assert f'name="address" value="{KIM}" readonly' in browser.get(f"/emails/{email.pk}/suppress/").text
    answer = post(browser, email, "suppress", address="robin@example.com")
    assert (answer.status_code, "goes to another address now" in answer.text) == (409, True)
    assert not Suppression.objects.exists()


@pytest.mark.parametrize(("what", "sentence"), [("suppress", "on the suppression list already"), ("release", "not on")])
def test_what_is_so_already_is_refused(what: str, sentence: str) -> None:
    """Somebody else was faster."""
    email = queued()
    if what == "suppress":
        suppression.suppress(KIM, "It came back.")
    answer = post(signed_in(ACTS), email, what)
    assert (answer.status_code, sentence in answer.text, Entry.objects.exists()) == (409, True, False)


def test_a_forgotten_recipient_is_nobody_to_act_on() -> None:
    """Neither on the page, nor by its form."""
    email = queued()
    call_command("emails", "forget", KIM, "--why", "They asked.")
    browser = signed_in(ACTS)
    assert "Suppression list" not in browser.get(f"/emails/{email.pk}/").text
    answer = browser.get(f"/emails/{email.pk}/suppress/")
    assert (answer.status_code, "was forgotten" in answer.text) == (409, True)


def test_the_list_of_an_email_that_is_not_there_has_no_form() -> None:
    answer = signed_in(ACTS).get("/emails/4711/suppress/")
    assert (answer.status_code, "There is no e-mail 4711." in answer.text) == (409, True)
