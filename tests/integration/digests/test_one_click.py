"""Who unsubscribes by one click in an e-mail that tells notifications has set a preference (RFC 8058)."""

from typing import TYPE_CHECKING, cast

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from pytest_django import Settings

from tests.integration.digests.digested import (
    ALARM,
    CHAT,
    KIM,
    NEWS,
    ROBIN,
    Relay,
    forget_the_case_before,
    kinds_of_test,
    relay,
    send,
    tell,
    told,
    unread,
)
from weir.digests import emails
from weir.notifications import inbox
from weir.notifications.channels import kinds, preferences
from weir.notifications.models import Channel
from weir.workers.mail.models import Email, Unsubscription
from weir.workers.mail.sending import runner
from weir.workers.mail.writing import unsubscribing

if TYPE_CHECKING:
    from email.message import EmailMessage

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey", "messages", "kinds_of_test"),
]
__all__ = ["kinds_of_test", "relay"]
ORIGIN = "https://shop.example"
CLICK = {"List-Unsubscribe": "One-Click"}


def link(relay: Relay) -> str:
    assert relay.came, Email.objects.get().last_reply
    (line,) = [email["List-Unsubscribe"] for email in relay.came[-1:]]
    return str(line).strip("<>").removeprefix(ORIGIN)


def test_one_click_ends_digests_or_what_the_email_is_about(relay: Relay, settings: Settings) -> None:
    """In a digest: all digests, until the user chooses them again. In another e-mail: e-mails of its kind."""
    settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN = ORIGIN
    preferences.set_preference(KIM, CHAT, "digest")
    tell("a"), tell("b", kind=CHAT)
    send()
    tell("waits")
    assert Client(enforce_csrf_checks=True).post(link(relay), CLICK).status_code == 200
    assert preferences.preferences(KIM) == {NEWS: Channel.PAGE, ALARM: Channel.EMAIL, CHAT: Channel.PAGE}
    assert inbox.notify_many([KIM], NEWS, "c") == 1
    send()
    assert (told(relay), unread()) == ({"a": 1, "b": 1}, {"waits", "c"})
    preferences.set_preference(KIM, NEWS, "digest")
    tell("d")
    send()
    assert told(relay) == {"a": 1, "b": 1, "d": 1}
    assert not Unsubscription.objects.exists()

    forget_the_case_before(relay)
    tell("fire", kind=ALARM)
    runner.send_due()
    assert Client().post(link(relay), CLICK).status_code == 200
    assert preferences.preferences(KIM)[ALARM] == Channel.PAGE


def test_a_link_ends_emails_of_its_kind_though_the_kind_is_gone(
    relay: Relay, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as in a web process of another version. E-mails of other kinds still come."""
    settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN = ORIGIN
    tell("fire", kind=ALARM)
    runner.send_due()
    with monkeypatch.context() as patch:
        patch.setattr(kinds, "_kinds", {})
        assert Client().post(link(relay), CLICK).status_code == 200
    preferences.set_preference(KIM, CHAT, "email")
    tell("flood", kind=ALARM), tell("hello", kind=CHAT)
    runner.send_due()
    assert ([email["Subject"] for email in relay.came], unread()) == (["fire", "hello"], {"flood"})
    assert not Unsubscription.objects.exists()


def test_a_user_who_is_not_active_is_told_on_the_page_only(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever cannot log in can neither read it nor choose another channel."""
    monkeypatch.setattr(kinds, "_addresses", [])
    for user, name in ((KIM, "kim"), (ROBIN, "robin")):
        get_user_model().objects.create_user(name, f"{name}@customers.example", pk=user, is_active=user == ROBIN)
    assert inbox.notify_many([KIM, ROBIN], NEWS, "news") == 2
    assert inbox.notify_many([KIM, ROBIN], ALARM, "fire") == 2
    send()
    assert [email["To"] for email in relay.came] == ["robin@customers.example"] * 2
    assert (unread(), unread(ROBIN)) == ({"news", "fire"}, set())


@pytest.mark.parametrize("letters", ["k" * 255, "é" * 200, "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 255])
def test_a_link_works_or_is_left_out_however_long_a_users_key_is(settings: Settings, letters: str) -> None:
    settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN = ORIGIN
    about = f"{'n' * 100}{emails.SEPARATOR}{letters}"
    if url := emails._unsubscribe_url(emails.SINGLE, "kim@customers.example", about):
        assert unsubscribing.read(url.rstrip("/").rpartition("/")[2]).about == about
    assert bool(url) == (letters.isascii())


BAD_LINKS = ["http://[x", "//a]", "javascript:alert(1)", "data:text/html,x"]


def test_a_bad_link_or_title_keeps_no_other_notification_from_being_told(relay: Relay, settings: Settings) -> None:
    """What is no link of the web is left out; a title is one line, as a subject must be."""
    settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN = ORIGIN
    for url in BAD_LINKS:
        inbox.notify(KIM, NEWS, f"{url} is bad", url=url)
    inbox.notify(KIM, NEWS, "good", url="/1\nTold: 2")
    send()
    assert told(relay) == {**{f"{url} is bad": 1 for url in BAD_LINKS}, "good": 1}
    parts = [cast("EmailMessage", relay.came[0].get_body((part,))).get_content() for part in ("plain", "html")]
    assert [part.count(f"{ORIGIN}/1 Told: 2") for part in parts] == [1, 1]
    assert parts[1].count("href=") == 2  # and the link to unsubscribe
    inbox.notify(KIM, ALARM, "\x01fire\r\nBcc: eve@evil.example\x7f")
    runner.send_due()
    assert [(email["Subject"], email["Bcc"]) for email in relay.came[1:]] == [("fire Bcc: eve@evil.example", None)]
