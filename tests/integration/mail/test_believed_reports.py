"""Which reports are believed, by what names an e-mail of ours, and which addresses they suppress."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from tests.integration.mail import shipments
from tests.unit.mail.bounces import written
from weir.workers.mail import renderings, suppression
from weir.workers.mail.bounces import handling, reports
from weir.workers.mail.bounces.handling import Handled
from weir.workers.mail.checks import envelope_sender_is_an_address
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import outcomes, runner
from weir.workers.mail.transports.base import Accepted

pytestmark = [shipments.DATABASE, pytest.mark.usefixtures("messages")]

SES_ID = "0100017f0a1b2c3d-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-000000"


@pytest.fixture
def email() -> Email:
    """An e-mail that a relay has accepted."""
    return sent()


def sent(**fields: Any) -> Email:
    shipped = shipments.ship()
    Email.objects.filter(pk=shipped.pk).update(state=EmailState.SENT, sent_at=shipped.created_at, **fields)
    shipped.refresh_from_db()
    return shipped


def report(email: Email, *, to: str = "", about: str = "", **said: str) -> bytes:
    """Return a report that names the e-mail where a test says so."""
    return written.of_recipient(to or email.recipient, returned=about, **said)


def complaint(email: Email, kind: str = "abuse", to: str = "") -> bytes:
    """Return a complaint of a feedback loop."""
    return written.of_parts(
        "\nSomebody pressed a button.\n",
        written.part("message/feedback-report", f"Feedback-Type: {kind}\nUser-Agent: Loop/1\n{to}"),
        written.part("message/rfc822", f"Subject: Your order\nMessage-ID: {email.message_id}\n"),
        kind="multipart/report; report-type=feedback-report",
    )


def handled(content: bytes) -> Handled:
    """Handle an e-mail with one report; return what was done."""
    (found,) = reports.parse(content)
    return handling.handle(found)


NAMING: dict[str, Callable[[Email], dict[str, str]]] = {
    "returned": lambda email: {"about": f"Message-ID: {email.message_id}\n"},
    "In-Reply-To": lambda email: {"headers": f"In-Reply-To: {email.message_id}\n"},
    "References": lambda email: {"headers": f"References: <other@shop.example>\n {email.message_id}\n"},
    "both, folded": lambda email: {"headers": f"References:\n {email.message_id}\nIn-Reply-To:\n {email.message_id}\n"},
    "a header that nobody knows": lambda email: {"headers": f"X-Original-Message: id={email.message_id}\n"},
    "where another id is returned": lambda email: {
        "headers": f"In-Reply-To: {email.message_id}\n",
        "about": "Message-ID: <made-by@provider.example>\n",
    },
}


@pytest.mark.parametrize("naming", NAMING.values(), ids=NAMING.keys())
def test_a_report_is_believed_wherever_it_names_the_message_id(
    email: Email, naming: Callable[[Email], dict[str, str]]
) -> None:
    """Exim writes References if it returns nothing of the e-mail, Microsoft writes In-Reply-To."""
    assert handled(report(email, **naming(email))).bounced
    assert suppression.reasons([email.recipient])


@pytest.mark.parametrize(
    "name", ["a\0b@c.example", "\\x{D800}@c.example", "a@" + "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 300]
)
def test_a_name_that_no_database_takes_is_no_error(email: Email, name: str) -> None:
    """Otherwise the report would be read again and again."""
    about = f"Message-ID: <{name}>\nReturn-Path: <{name}>\n"
    assert not handled(report(email, headers=f"In-Reply-To: <{name}>\nTo: {name}\n", about=about)).believed
    assert not handled(report(email, to=name, about=about)).believed
    assert handled(report(email, headers=f"References: <{name}>\n", about=f"Message-ID: {email.message_id}\n")).bounced


def test_a_report_of_ses_is_believed_by_its_own_id() -> None:
    """It replaces the Message-ID by the id that its reply to the content had."""
    for reply in (f"250 Ok {SES_ID}", f"250 2.0.0 OK {SES_ID}\r\n"):
        assert outcomes.accepted(Accepted(reply)).reference == SES_ID
    assert outcomes.accepted(Accepted("250 2.0.0 Ok: queued as 4Xk2qW1z9z")).reference == ""
    email = sent(provider_id=SES_ID)
    assert not handled(report(email, about="Message-ID: <x@email.amazonses.com>\n")).believed
    assert handled(report(email, about=f"Message-ID: <{SES_ID}@email.amazonses.com>\n")).bounced


@pytest.mark.parametrize("provider_id", ["<{}@provider.example>", "{}@provider.example", "{}"])
def test_a_report_is_believed_by_the_name_that_any_provider_gave(provider_id: str) -> None:
    """In the form in which backends keep it."""
    name = "20261127.0a1b2c3d4e5f"
    email = sent(provider_id=provider_id.format(name))
    assert handled(report(email, about=f"Message-ID: <{name}@provider.example>\n")).bounced


def test_a_name_that_can_be_guessed_is_none() -> None:
    """Some providers number their e-mails."""
    assert not handled(report(sent(provider_id="4711"), about="Message-ID: <4711@provider.example>\n")).believed


def test_an_e_mail_without_a_provider_is_not_found_by_a_report_without_names(email: Email) -> None:
    """Both are empty."""
    assert not handled(report(email)).believed


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ("kim@xn--bcher-kva.example", "kim@b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example"),
        ("kim@example.com", "KIM@Example.com."),
        ("kim@example.com", '"kim"@example.com'),
    ],
)
def test_the_recipient_is_recognised_in_any_spelling(stored: str, named: str) -> None:
    """U-labels (RFC 6533), a dot at the end, quotes."""
    email = sent(recipient=stored)
    assert handled(report(email, to=named, about=f"Message-ID: {email.message_id}\n")).bounced


@pytest.mark.parametrize(
    ("status", "diagnostic", "is_suppressed"),
    [
        ("5.0.0", "550 5.1.1 User unknown", True),  # as Exim writes it
        ("5.0.0", "550 no such user", True),  # as Postfix does, of servers without enhanced codes
        ("5.1.1", "550 5.1.1 sent to too many recipients this hour", False),
        ("5.2.1", "550 5.2.1 gets mail at a rate that is too high", False),
        ("5.1.0", "550 5.1.0 sender rejected", False),
        ("5.1.3", "550 5.1.3 see https://spamhaus.org/q", False),
        ("5.1.1", "550 5.7.1 IP blacklisted", False),
    ],
)
def test_only_what_says_that_the_address_does_not_exist_suppresses(
    email: Email, status: str, diagnostic: str, is_suppressed: bool
) -> None:
    """The words of the server that refused count, and so does the status of the server that reports."""
    content = report(email, status=status, diagnostic=diagnostic, about=f"Message-ID: {email.message_id}\n")
    assert handled(content).bounced
    assert bool(suppression.reasons([email.recipient])) is is_suppressed


def test_a_report_that_names_no_recipient_suppresses_none(email: Email) -> None:
    """It may be about another address, to which the recipient forwards."""
    about = f"Message-ID: {email.message_id}\n"
    content = report(email, about=about).replace(b"Final-Recipient", b"Other")
    assert handled(content).bounced
    assert not suppression.reasons([email.recipient])


def test_who_is_dead_is_the_one_to_whom_it_was_sent_on(email: Email) -> None:
    """The recipient may be a list, with living members: it is written to again."""
    sent_on = b"Final-Recipient: rfc822; member@elsewhere.example\nOriginal-Recipient"
    said = f"550 5.1.1 <{email.recipient}> is <member@elsewhere.example>: User unknown"
    content = report(email, about=f"Message-ID: {email.message_id}\n", diagnostic=said)
    assert handled(content.replace(b"Final-Recipient", sent_on)).bounced
    assert not suppression.reasons([email.recipient])
    email.refresh_from_db()
    assert email.last_reply == "5.1.1 550 5.1.1 <<recipient>> is <<recipient>>: User unknown"  # no address is kept


@pytest.mark.parametrize("kind", ["abuse", "Fraud", "opt-out"])
def test_who_complains_is_not_written_to_any_more(email: Email, kind: str) -> None:
    """RFC 5965. The e-mail was delivered: it stays sent, and the second report changes nothing."""
    for _ in range(2):
        assert handled(complaint(email, kind)).believed
    assert "complained" in suppression.reasons([email.recipient])[email.recipient]
    assert shipments.state(email)[0] == EmailState.SENT


def test_a_complaint_of_somebody_else_suppresses_nobody(email: Email) -> None:
    """The e-mail was forwarded to that person, or the complaint is forged."""
    assert not handled(complaint(email, to="Original-Rcpt-To: mallory@elsewhere.example\n")).believed
    email.message_id = "<order.shipped-1-000000000000@shop.example>"
    assert not handled(complaint(email)).believed
    assert not suppression.reasons([email.recipient])


class TestEnvelopeSender:
    """The address that reports are sent to."""

    @pytest.fixture(autouse=True)
    def _verp(self, settings: Settings) -> None:
        settings.WEIR_MAIL_ENVELOPE_SENDER = "bounces+{id}@shop.example"

    def test_each_e_mail_has_one_of_its_own(self, email: Email) -> None:
        """Or all have the same one, or that of DEFAULT_FROM_EMAIL."""
        own = renderings.message(email, email.rendering).from_address
        assert own.startswith(f"bounces+{email.pk}-")
        assert own.endswith("@shop.example")
        assert own != renderings.message(sent(), email.rendering).from_address

    @pytest.mark.parametrize(
        ("wanted", "sender"),
        [
            ("", "orders@shop.example"),
            ("bounces@B\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example", "bounces@xn--bcher-kva.example"),
        ],
    )
    def test_all_may_have_the_same(self, email: Email, settings: Settings, wanted: str, sender: str) -> None:
        """The setting names it; without it, bounces go where answers go."""
        settings.DEFAULT_FROM_EMAIL = "Shop <orders@shop.example>"
        settings.WEIR_MAIL_ENVELOPE_SENDER = wanted
        assert renderings.message(email, email.rendering).from_address == sender

    @pytest.mark.parametrize("header", ["To", "Delivered-To", "X-Original-To", "Envelope-To", "X-Forwarded-To"])
    def test_a_report_is_believed_by_what_it_was_sent_to(self, email: Email, header: str) -> None:
        """Even in capital letters, as some servers write it."""
        own = renderings.envelope_sender(email).upper()
        assert handled(report(email, headers=f"{header}: <{own}>\n")).bounced
        assert suppression.reasons([email.recipient])

    def test_its_domain_may_have_any_letters(self, email: Email, settings: Settings) -> None:
        """Servers get the domain in ASCII, and report it so."""
        settings.WEIR_MAIL_ENVELOPE_SENDER = "{id}.bounces@B\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example"
        own = renderings.envelope_sender(email)
        assert own.endswith(".bounces@xn--bcher-kva.example")
        assert handled(report(email, headers=f"To: {own}\n")).bounced

    @pytest.mark.parametrize("change", ["id", "code", "domain", "recipient", "key"])
    def test_a_forged_one_suppresses_nobody(self, email: Email, settings: Settings, change: str) -> None:
        """Whoever got one e-mail knows one address, and cannot make that of another."""
        own = renderings.envelope_sender(email)
        victim = email
        if change == "id":
            victim = sent()
            own = own.replace(f"+{email.pk}-", f"+{victim.pk}-")
        elif change == "code":
            local, _, domain = own.partition("@")
            own = f"{local[:-1]}{'0' if local[-1] != '0' else '1'}@{domain}"
        elif change == "domain":
            own = own.replace("@shop.example", "@elsewhere.example")
        elif change == "recipient":  # the first recipient, before it was sent again to another one
            Email.objects.filter(pk=email.pk).update(recipient="new@customers.example")
            victim.refresh_from_db()
        else:
            settings.SECRET_KEY = "another"  # noqa: S105  of this test
        assert not handled(report(victim, headers=f"To: {own}\n")).believed
        assert not suppression.reasons([victim.recipient])
        assert shipments.state(victim)[0] == EmailState.SENT

    def test_a_key_that_was_replaced_counts_for_what_was_sent_before(self, email: Email, settings: Settings) -> None:
        """Reports come days later."""
        own = renderings.envelope_sender(email)
        settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another"
        assert handled(report(email, headers=f"To: {own}\n")).bounced

    def test_it_must_be_about_the_recipient_all_the_same(self, email: Email) -> None:
        """An address to which the recipient forwards may not exist."""
        content = report(email, headers=f"To: {renderings.envelope_sender(email)}\n", to="other@elsewhere.example")
        assert not handled(content).believed

    @pytest.mark.parametrize(
        "wanted",
        [
            "bounces",
            "{id}",
            "bounces@{id}.example",
            "b{id}{id}@shop.example",
            "a b@shop.example",
            "b\N{LATIN SMALL LETTER U WITH DIAERESIS}@shop.example",
            "x" * 40 + "{id}@shop.example",
        ],
    )
    def test_what_is_no_address_is_told_by_a_check(self, settings: Settings, wanted: str) -> None:
        """The check says so before the first e-mail; no e-mail fails because of it."""
        assert envelope_sender_is_an_address() == []
        settings.WEIR_MAIL_ENVELOPE_SENDER = wanted
        assert [message.id for message in envelope_sender_is_an_address()] == ["weir.E019"]
        waiting = shipments.ship()
        assert "WEIR_MAIL_ENVELOPE_SENDER cannot be used" in runner.send_due().stopped_because
        assert shipments.state(waiting)[0] == EmailState.PENDING
