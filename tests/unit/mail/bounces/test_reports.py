"""What is a delivery report, and what it says: reports of Postfix, Exchange, Exim, qmail, and junk."""

import base64
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from tests.unit.mail.bounces import written
from weir.workers.mail.bounces import mime, reports
from weir.workers.mail.bounces.reports import ReportAction, parse

OURS = "<order.shipped-4711-0a1b2c3d4e5f@example.com>"
STATUS = """\
Reporting-MTA: dns; relay.example
Arrival-Date: Mon, 23 Nov 2026 18:08:58 +0000 (UTC)

Final-Recipient: rfc822; ada@customers.example
Original-Recipient: rfc822;ada@customers.example
Action: failed
Status: 5.1.1
Remote-MTA: dns; mx.customers.example
Diagnostic-Code: smtp; 550 5.1.1 <ada@customers.example>: Recipient address
    rejected: User unknown
"""
RETURNED = f"""\
Received: from web (web [10.0.0.1]) by relay.example
Subject: Your order
Message-ID: {OURS}
From: shop@example.com
"""


def report(
    status: str = STATUS,
    returned: str = RETURNED,
    *,
    returned_type: str = "text/rfc822-headers",
    status_type: str = "message/delivery-status",
    top: str = "multipart/report; report-type=delivery-status",
    headers: str = "",
) -> bytes:
    """Return a report as Postfix writes it."""
    return written.of_parts(
        written.part("text/plain; charset=utf-8", "This is the mail system. Message-ID: <not-this@one>\n"),
        written.part(status_type, status),
        written.part(returned_type, returned),
        headers=f"To: shop@example.com\nSubject: Undelivered Mail Returned to Sender\n{headers}MIME-Version: 1.0\n",
        kind=top,
        boundary="b1",
    )


def test_a_report_of_postfix_is_read() -> None:
    """RFC 3464, with the header of what is returned."""
    (found,) = parse(report())
    assert found == reports.BounceReport(
        message_id=OURS,
        recipient="ada@customers.example",
        addresses=frozenset({"ada@customers.example"}),
        action=ReportAction.FAILED,
        status="5.1.1",
        diagnostic="550 5.1.1 <ada@customers.example>: Recipient address rejected: User unknown",
        reporting_mta="relay.example",
        arrived_by=datetime(2026, 11, 23, 18, 8, 58, tzinfo=UTC),
        names=(OURS.strip("<>"), "shop@example.com", "ada@customers.example"),
    )


@for_each(
    ("arrival", "date", "arrived_by"),
    [
        ("Mon, 23 Nov 2026 19:08:58 +0100", "Tue, 24 Nov 2026 00:00:00 +0000", 23),
        ("yesterday", "Tue, 24 Nov 2026 00:00:00 -0000", 24),
        ("", "Tue, 24 Nov 2026 00:00:00 +0000", 24),
        ("Fri, 31 Dec 9999 23:59:00 -1400", "", None),
        ("", "Tue, 99 Nov 2026 00:00:00 +0000", None),
    ],
)
def test_when_the_server_had_the_e_mail_is_read(arrival: str, date: str, arrived_by: int | None) -> None:
    """Or else when the report was written; in UTC, and without an error where nobody can read it."""
    status = STATUS.replace("Mon, 23 Nov 2026 18:08:58 +0000 (UTC)", arrival)
    (found,) = parse(report(status, headers=f"Date: {date}\n"))
    assert (found.arrived_by and (found.arrived_by.day, found.arrived_by.tzinfo)) == (arrived_by and (arrived_by, UTC))


@for_each(
    "options",
    [
        {"returned_type": "message/rfc822", "returned": f"{RETURNED}\nDear Ada,\n"},
        {"returned_type": "message/global-headers", "status_type": "message/global-delivery-status"},
        {"returned_type": "text/rfc822-headers; charset=x-unknown"},
        {"returned": RETURNED.replace("Message-ID: ", "Message-Id:\n ")},
        {"returned": RETURNED.replace("Subject: Your order", "Subject: \udcff\udcfe")},
        {"top": "multipart/report"},
        {"top": "multipart/mixed"},
        {"headers": "Auto-Submitted: auto-replied\n"},
        {"status": STATUS.replace("\n\n", "\n \n")},
        {"status": STATUS.replace(":", "  :", 4)},
        {"status": STATUS.replace("Action: failed", "Action: Failed (really)")},
        {"status": STATUS.replace("Action: failed\n", "")},
        {"status": STATUS.replace("Status: 5.1.1\n", "")},
        {"status": f"{STATUS}\n\n\n"},
    ],
)
def test_it_is_read_in_whatever_form_it_comes(options: dict[str, str]) -> None:
    """With the whole e-mail, without a charset that anybody knows, with fields missing."""
    (found,) = parse(report(**options))
    assert (found.message_id, found.action, found.status) == (OURS, ReportAction.FAILED, "5.1.1")
    assert found.recipient == "ada@customers.example"


def test_a_status_in_base64_and_with_other_ends_of_lines_is_read() -> None:
    """As some gateways send it, against RFC 3464."""
    encoded = base64.encodebytes(STATUS.encode()).decode()
    of_gateway = report(status=encoded, status_type="message/delivery-status\nContent-Transfer-Encoding: base64")
    for content in (of_gateway, report().replace(b"\n", b"\r\n")):
        (found,) = parse(content)
        assert (found.message_id, found.status) == (OURS, "5.1.1")


@for_each(
    ("field", "recipient", "spelt"),
    [
        ("Original-Recipient: rfc822;ada+2Bshop@x.example", "ada+shop@x.example", "ada+shop@x.example"),
        ("Original-Recipient: rfc822;ada+shop@x.example", "ada+shop@x.example", "ada+shop@x.example"),
        ("Original-Recipient: rfc822;ada+AB@x.example", "ada\xab@x.example", "ada+ab@x.example"),
        ("Final-Recipient: rfc822; <Ada@X.example>", "Ada@X.example", "ada@x.example"),
        ("Final-Recipient: utf-8; ad\\x{E9}@x.example", "adé@x.example", "adé@x.example"),
        ("Final-Recipient: ada@x.example", "ada@x.example", "ada@x.example"),
    ],
)
def test_a_recipient_is_read_as_it_may_be_spelt(field: str, recipient: str, spelt: str) -> None:
    """RFC 3461 and 6533 escape letters; others do not, so both spellings count."""
    (found,) = parse(report(f"Reporting-MTA: dns; a\n\n{field}\nAction: failed\nStatus: 5.1.1\n"))
    assert found.recipient == recipient
    assert spelt in found.addresses


@for_each(
    ("original", "final", "is_forwarded"),
    [
        ("kim@x.example", "member@y.example", True),
        ("kim@x.example", "KIM@X.example", False),
        ("kim@b\\x{FC}cher.example", "kim@xn--bcher-kva.example", False),
        ("", "kim@x.example", False),
        ("kim@x.example", "", False),
    ],
)
def test_it_is_known_whether_the_e_mail_was_sent_on(original: str, final: str, is_forwarded: bool) -> None:
    """RFC 3464, 2.3.1 and 2.3.2: the report is about the final recipient."""
    named = f"Original-Recipient: rfc822;{original}\nFinal-Recipient: rfc822;{final}\nAction: failed\nStatus: 5.1.1\n"
    (found,) = parse(report(f"Reporting-MTA: dns; a\n\n{named}"))
    assert found.is_forwarded is is_forwarded


@for_each(
    ("status", "said", "diagnostic"),
    [
        ("5.0.0", '<192.0.2.1 #5.0.0 smtp; 550 "Unknown User">', '550 "Unknown User">'),
        ("5.1.1", "<mx #5.1.1 smtp; 550 5.7.1 too many recipients>", "550 5.7.1 too many recipients>"),
        ("5.1.1", "seen at 10:55", ""),
    ],
)
def test_a_reply_in_a_field_of_the_servers_own_is_read(status: str, said: str, diagnostic: str) -> None:
    """Where there is no Diagnostic-Code, and where there is one, which counts."""
    fields = (
        f"Reporting-MTA: dns; a\n\nFinal-Recipient: rfc822; a@b.example\nStatus: {status}\nX-Supplementary-Info: {said}"
    )
    (found,) = parse(report(fields))
    assert found.diagnostic == diagnostic
    (found,) = parse(report(f"{fields}\nDiagnostic-Code: smtp; 550 no\n"))
    assert found.diagnostic == "550 no"


def test_a_failure_with_a_status_of_success_is_none() -> None:
    """One of the two is wrong."""
    (found,) = parse(report(STATUS.replace("Status: 5.1.1", "Status: 2.1.5")))
    assert found.action is ReportAction.DELIVERED


def test_each_recipient_and_each_action_is_told() -> None:
    """One report may be about several; the original recipient counts before the one it was forwarded to."""
    status = "Reporting-MTA: dns; a\n\n" + "\n".join(
        f"Original-Recipient: rfc822;{action}@a.example\nFinal-Recipient: rfc822;x@b.example\nAction: {action}\n"
        for action in ReportAction
    )
    found = parse(report(status))
    assert [each.action for each in found] == list(ReportAction)
    assert [each.recipient for each in found] == [f"{action}@a.example" for action in ReportAction]
    assert all("x@b.example" in each.addresses for each in found)


EXIM = f"""\
X-Failed-Recipients: ada@customers.example,
  bob@customers.example
Auto-Submitted: auto-replied
From: Mail Delivery System <Mailer-Daemon@mx>
Content-Type: text/plain; charset=x-unknown

This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  ada@customers.example
    host mx.customers.example [1.2.3.4]
    SMTP error from remote mail server after RCPT TO:<ada@customers.example>:
    550 5.1.1 No such user
  bob@customers.example
    retry timeout exceeded

------ This is a copy of the message, including all the headers. ------

Return-path: <shop@example.com>
{RETURNED}
"""
QMAIL = f"""\
From: MAILER-DAEMON@mx
Subject: failure notice

Hi. This is the qmail-send program at mx.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

<ada@customers.example>:
550 no mailbox here by that name

--- Below this line is a copy of the message.

Return-Path: <shop@example.com>
{RETURNED}
"""


def test_plain_reports_of_exim_and_qmail_are_read() -> None:
    """Those that are no MIME name the recipients in a header or in a text of a known form."""
    ada, bob = parse(EXIM.encode())
    assert (ada.message_id, ada.recipient, ada.status, ada.action) == (OURS, "ada@customers.example", "5.1.1", "failed")
    assert ada.diagnostic.endswith("550 5.1.1 No such user")
    assert (bob.message_id, bob.recipient, bob.status) == (OURS, "bob@customers.example", "")
    assert bob.diagnostic == "retry timeout exceeded"
    (found,) = parse(QMAIL.encode())
    assert (found.message_id, found.recipient, found.status) == (OURS, "ada@customers.example", "5.0.0")


INNER = report().decode().replace("b1", "b2")
NESTED = report(status_type="text/plain", returned_type="message/rfc822", returned=INNER)


@for_each(
    "content",
    [
        b"",
        b"\0\xff" * 1_000,
        b"Subject: Thanks!\n\nMessage-ID: " + OURS.encode(),
        b"Subject: Out of office\nAuto-Submitted: auto-replied\nIn-Reply-To: " + OURS.encode() + b"\n\nI am away.\n",
        b"X-Failed-Recipients: a@b\nAuto-Submitted: auto-replied (vacation)\n\nI am away.\n",
        report(status_type="message/disposition-notification"),
        report(status="Version: 1\nFeedback-Type: not-spam\n", status_type="message/feedback-report"),
        report(status="Reporting-MTA: dns; a\n"),
        report(status="Reporting-MTA: dns; a\nStatus: 5.0.0\n"),
        report(status="junk"),
        NESTED,
    ],
)
def test_what_is_no_delivery_report_gives_none(content: bytes) -> None:
    """Answers, auto-replies, receipts, complaints, junk; nor is a report that somebody returns a report about us."""
    assert parse(content) == []


def test_a_report_that_was_signed_and_passed_on_is_read() -> None:
    """As gateways do: some parts are around it."""
    signature = written.part("application/pkcs7-signature", "MIIB")
    signed = written.of_parts(report().decode(), signature, kind="multipart/signed; micalg=sha-256", boundary="s")
    (found,) = parse(written.of_parts(signed.decode(), "\nScanned.\n", kind="multipart/mixed", boundary="m"))
    assert (found.message_id, found.status) == (OURS, "5.1.1")


@for_each("depth", [50, 5_000])
def test_what_is_nested_deeply_is_no_report_and_no_error(depth: int) -> None:
    """A parser that descends would run out of stack."""
    nested = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(depth))
    returned = "Content-Type: message/rfc822\n\n" * depth
    assert parse(nested.encode()) == parse(returned.encode()) == []


def test_of_ten_megabytes_only_the_beginning_is_looked_at() -> None:
    """There stands what matters."""
    content = report(returned_type="message/rfc822", returned=f"{RETURNED}\n" + "x" * 76 + ("\n" + "y" * 76) * 140_000)
    (found,) = parse(content)
    assert found.message_id == OURS
    late = report().replace(b"This is the mail system", b"x" * mime.LOOKED_AT)
    assert parse(late) == []


@given(st.data())
def test_no_damage_is_an_error(data: Any) -> None:
    """Whatever bytes are lost or changed on the way."""
    content = bytearray(data.draw(st.sampled_from([report(), EXIM.encode(), QMAIL.encode()])))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
    for found in parse(bytes(content)):
        assert found.action in ReportAction
