"""Which reports are believed, by what names an e-mail of ours, and whom they have suppressed."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.mail import shipments
from workers.mail import suppression
from workers.mail.bounces import handling, reports
from workers.mail.bounces.handling import Handled
from workers.mail.models import Email
from workers.mail.phases import State

pytestmark = [shipments.DATABASE, pytest.mark.usefixtures("messages")]


@pytest.fixture
def email() -> Email:
    """An e-mail that a relay has accepted."""
    return sent()


def sent(**fields: Any) -> Email:
    shipped = shipments.ship()
    Email.objects.filter(pk=shipped.pk).update(state=State.SENT, sent_at=shipped.created_at, **fields)
    shipped.refresh_from_db()
    return shipped


def report(
    email: Email,
    *,
    status: str = "5.1.1",
    diagnostic: str = "550 5.1.1 no",
    headers: str = "",
    about: str = "",
    to: str = "",
) -> bytes:
    """Return a report as most mail servers write it, which names the e-mail where a test says so."""
    return f"""\
From: MAILER-DAEMON@mx.example
{headers}Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example

Final-Recipient: rfc822; {to or email.recipient}
Action: failed
Status: {status}
Diagnostic-Code: smtp; {diagnostic}

--b
Content-Type: text/rfc822-headers

Subject: Your order
{about}
--b--
""".encode()


def complaint(email: Email, kind: str = "abuse", to: str = "") -> bytes:
    """Return a complaint of a feedback loop."""
    return f"""\
From: feedback@isp.example
Content-Type: multipart/report; report-type=feedback-report; boundary="b"

--b

Somebody pressed a button.

--b
Content-Type: message/feedback-report

Feedback-Type: {kind}
User-Agent: Loop/1
{to}
--b
Content-Type: message/rfc822

Subject: Your order
Message-ID: {email.message_id}

--b--
""".encode()


def handled(content: bytes) -> Handled:
    """Have the one report in an e-mail handled."""
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
    """Exim writes References where it returns nothing, Microsoft In-Reply-To."""
    assert handled(report(email, **naming(email))).bounced
    assert suppression.reasons([email.recipient])


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
    """What the refusing server said counts as well as the status of the one that reports."""
    content = report(email, status=status, diagnostic=diagnostic, about=f"Message-ID: {email.message_id}\n")
    assert handled(content).bounced
    assert bool(suppression.reasons([email.recipient])) is is_suppressed


def test_a_report_that_names_no_recipient_suppresses_none(email: Email) -> None:
    """It may be about somebody to whom the recipient forwards."""
    about = f"Message-ID: {email.message_id}\n"
    content = report(email, about=about).replace(b"Final-Recipient", b"Other")
    assert handled(content).bounced
    assert not suppression.reasons([email.recipient])


@pytest.mark.parametrize("kind", ["abuse", "Fraud", "opt-out"])
def test_who_complains_is_not_written_to_any_more(email: Email, kind: str) -> None:
    """RFC 5965. The e-mail was delivered: it stays sent, and the second report changes nothing."""
    for _ in range(2):
        assert handled(complaint(email, kind)).believed
    assert "complained" in suppression.reasons([email.recipient])[email.recipient]
    assert shipments.state(email)[0] == State.SENT


def test_a_complaint_of_somebody_else_suppresses_nobody(email: Email) -> None:
    """Somebody to whom it was forwarded, or a forger."""
    assert not handled(complaint(email, to="Original-Rcpt-To: mallory@elsewhere.example\n")).believed
    email.message_id = "<order.shipped-1-000000000000@shop.example>"
    assert not handled(complaint(email)).believed
    assert not suppression.reasons([email.recipient])
