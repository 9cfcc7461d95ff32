"""What mail servers write to people, each in its own form: read by what the forms have in common."""

import base64

from tests.cases import for_each
from weir.workers.mail.bounces.reports import ReportAction, parse
from weir.workers.mail.bounces.statuses import is_of_a_dead_address

OURS = "<order.shipped-4711-0a1b2c3d4e5f@shop.example>"
KIM = "kim@customers.example"
HEAD = "From: Mail Delivery System <MAILER-DAEMON@mx.example>\nTo: shop@shop.example\nSubject: Undelivered\n"
COPY = f"""\
Return-Path: <shop@shop.example>
Received: from web by mx.example
From: Shop <shop@shop.example>
To: Kim <{KIM}>
Subject: Your order
Message-ID: {OURS}

Dear Kim,
"""
EXIM = f"""\
X-Failed-Recipients: {KIM}
Auto-Submitted: auto-replied
{HEAD}
This message was created automatically by mail delivery software.

  {KIM}
    host mx.customers.example [192.0.2.1]
    SMTP error from remote mail server after RCPT TO:<{KIM}>:
    550 5.1.1 User unknown

------ This is a copy of the message, including all the headers. ------

{COPY}"""
EXIM_UNROUTEABLE = (
    EXIM.partition("    host")[0] + "    Unrouteable address\n\n------ This" + EXIM.partition("------ This")[2]
)
LISTED = (
    f'{HEAD}\nA message could not be delivered.\n\n"{KIM}":\nhost: mx.customers.example\n5.1.1 User unknown\n\n{COPY}'
)
ONE_LINE = (
    f"{HEAD}\n    Hi!\n\n    An error has occurred.\n\n{KIM}: 550 5.1.1 no such user\n\n    Below is a copy:\n\n{COPY}"
)
REFUSED = f"There was an error delivering your mail to <{KIM}>.\n\nmx did not like our RCPT TO:\n550 5.1.1 unknown"
SENTENCE = f"{HEAD}\n{REFUSED}\n\n{COPY}"
WORDS = f"{HEAD}\nUnknown user: {KIM}\n\n\nOriginal message follows.\n\n{COPY}"
NOT_LISTED = f"Your message was not delivered to:\n\n  {KIM}\n\nbecause:\n\n  User Kim ({KIM}) not listed in Directory"
DIRECTORY = f"{HEAD}\n{NOT_LISTED}\n\n{COPY}"
PARTS = f"""\
{HEAD}Content-Type: multipart/mixed; boundary=b

--b
Content-Transfer-Encoding: quoted-printable

The mail could not be delivered to {KIM[:5]}=
{KIM[5:]}

Technical report: 550 5.1.1 User unknown

--b
Content-Type: message/rfc822

{COPY}
--b--
"""
IN_BASE64 = PARTS.replace(
    "Content-Type: message/rfc822", "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64"
).replace(COPY, base64.encodebytes(COPY.encode()).decode())
THREAD = f"""\
X-Failed-Recipients: {KIM}
Auto-Submitted: auto-replied
References: <order.paid-1-ffffffffffff@shop.example>
 {OURS}
{HEAD}
Delivery to the following recipient failed permanently:

     {KIM}

550 5.1.1 that account does not exist
"""
AWAY = f"Return-Path: <>\nFrom: Kim <{KIM}>\nAuto-Submitted: auto-replied\nIn-Reply-To: {OURS}\n\n"
LISTING = f"Your message cannot be delivered:\n\n  Recipient: {KIM}\n  Reason: 550 5.1.1 unknown user"
QUOTED = f"{HEAD}In-Reply-To: {OURS}\n\n{LISTING}\n"
BROKEN = PARTS.replace("Received: from web by mx.example", "Received: from web\nby mx.example\nfor somebody")
ALL = {
    "Exim": EXIM,
    "with lines ended by CR LF": EXIM.replace("\n", "\r\n"),
    "with lines ended by CR": EXIM.replace("\n", "\r"),
    "behind a mark of UTF-8": f"\ufeff{EXIM}",
    "behind a line of a mailbox": f"From MAILER-DAEMON Mon Nov 23 00:00:00 2026\n{EXIM}",
    "Exim, unrouteable": EXIM_UNROUTEABLE,
    "a quoted recipient": LISTED,
    "on one line": ONE_LINE,
    "in a sentence": SENTENCE,
    "in words": WORDS,
    "in a directory": DIRECTORY,
    "in parts": PARTS,
    "named again": EXIM.replace("------ This", f"For help about {KIM} write to us.\n\n------ This"),
    "a refusal that speaks of a delay": EXIM.replace("User unknown", "User unknown, not even delayed"),
    "a copy of one field": EXIM.partition("Return-Path")[0] + f"Message-ID: {OURS}\n\nDear Kim,\n",
    "returned in base64": IN_BASE64,
    "references, and nothing returned": THREAD,
    "an answer, and nothing returned": QUOTED,
    "a returned header that is broken": BROKEN,
}


@for_each("text", ALL.values(), ids=ALL.keys())
def test_who_was_refused_and_which_e_mail_is_found_in_whatever_form(text: str) -> None:
    """The recipient is named, the reply or the reason stands behind that, and the Message-ID is somewhere."""
    (found,) = parse(text.encode())
    assert (found.message_id, found.recipient, found.action) == (OURS, KIM, ReportAction.FAILED)
    assert is_of_a_dead_address(found.status, found.diagnostic, is_of_content=found.is_of_content)


@for_each(
    "text",
    [
        EXIM.replace("Undelivered", "Warning: message 1-2 delayed 24 hours"),
        EXIM.replace("This message was created", "No action is required on your part. This message was created"),
        THREAD.replace("failed permanently:", "has been delayed:"),
        ONE_LINE.replace("An error has occurred.", "A message is delayed, this is only a temporary failure."),
        SENTENCE.replace("\nThere was", "\nTHIS IS A WARNING MESSAGE ONLY. There was").replace(
            "550 5.1.1", "450 4.1.1"
        ),
    ],
)
def test_a_warning_is_not_taken_for_a_failure(text: str) -> None:
    """The e-mail may still be delivered."""
    assert {found.action for found in parse(text.encode())} == {ReportAction.DELAYED}


@for_each(
    "text",
    [
        EXIM.replace("auto-replied", "auto-replied (vacation)"),
        EXIM.replace("Mail Delivery System <MAILER-DAEMON@mx.example>", KIM),
        ONE_LINE.replace("MAILER-DAEMON@mx.example", KIM).replace("Mail Delivery System", "Kim"),
        f"From: {KIM}\nTo: shop@shop.example\nIn-Reply-To: {OURS}\n\nYour 550 boxes came, {KIM}\n",
        f"{AWAY}I am away until Monday. {KIM}, phone 550 1234.\n",
        f"{AWAY}The address {KIM} is no longer valid: your e-mail was not delivered. Write to office@a.example.\n",
        f"{HEAD}\nThe queue has 550 e-mails.\n",
        f"{HEAD}\nPlease confirm that you wrote to {KIM}: 12 hours are left.\n\n{COPY}",
        SENTENCE.replace("550 5.1.1", "450 4.1.1"),
    ],
)
def test_what_does_not_say_that_a_recipient_was_refused_for_good_is_no_report(text: str) -> None:
    """Holiday notices, answers that quote us, letters of the server to its postmaster, challenges."""
    assert parse(text.encode()) == []


@for_each(
    "said",
    [
        f"<{KIM}>: host mx[192.0.2.1] said: 550\n    : User unknown (in reply to end of\n    DATA command)",
        f"  {KIM}\n    SMTP error after end of data:\n    host mx [192.0.2.1]: 550 Unknown user",
        f"<{KIM}>\n    (reason: 550 User unknown)\n\n>>> DATA\n<<< 550 User unknown",
        f"<{KIM}>\n    (reason: 550 User unknown)\n\n>>> DATA\n<<< 550 User unknown\n<<< 554 Service unavailable",
        f"These could not be reached:\n{KIM}\n\n-------server message\n550 unknown user\n\n-------SMTP command\nDATA\n",
    ],
)
def test_a_refusal_of_the_content_is_known_as_such(said: str) -> None:
    """The recipient had been taken."""
    (found,) = parse(f"{HEAD}\n{said}\n\n{COPY}".encode())
    assert found.is_of_content


@for_each(
    "no_recipient", ["503 5.0.0 Need RCPT", "554 Error: no valid recipients", "554 5.5.1 Error: no valid recipients"]
)
def test_a_refusal_of_the_recipient_among_pipelined_commands_is_none_of_the_content(no_recipient: str) -> None:
    """Sendmail shows the replies to RCPT below DATA, and then that there was no recipient left (RFC 5321, 3.3)."""
    said = f"<{KIM}>\n    (reason: 550 User unknown)\n\n>>> DATA\n<<< 550 User unknown\n<<< {no_recipient}"
    (found,) = parse(f"{HEAD}\n{said}\n\n{COPY}".encode())
    assert not found.is_of_content


@for_each(
    "said",
    [
        f"<member@a.example> (expanded from\n    <{KIM.upper()}>): host mx said: 550 5.1.1 unknown",
        f"<member@a.example>\n    (reason: 550 5.1.1 unknown)\n    (expanded from: <{KIM}>)",
        f"  member@a.example\n    (generated from {KIM})\n    550 5.1.1 unknown",
    ],
)
def test_it_is_known_to_whom_the_e_mail_was_sent_on(said: str) -> None:
    """As Postfix, sendmail and Exim write it."""
    found = parse(f"{HEAD}\n{said}\n\n{COPY}".encode())
    assert [each for each in found if each.recipient.lower() == KIM and not each.is_forwarded] == []


def test_what_is_said_of_somebody_else_is_not_said_of_the_recipient() -> None:
    """Whoever it is: the copy need not name all."""
    text = f"{HEAD}\nCould not be delivered to {KIM}.\n<bob@a.example>:\n550 5.1.1 no such user\n\n{COPY}"
    (found,) = parse(text.encode())
    assert (found.recipient, found.status) == (KIM, "")


def test_each_of_several_recipients_has_a_reason_of_its_own() -> None:
    """What stands behind the next one is about that."""
    text = f"{HEAD}\n<ada@a.example>:\n550 5.1.1 unknown\n\n<bob@a.example>:\n552 5.2.2 full\n\n"
    ada, bob = parse(f"{text}{COPY.replace(KIM, 'ada@a.example, bob@a.example')}".encode())
    assert (ada.recipient, ada.status, bob.recipient, bob.status) == (
        "ada@a.example",
        "5.1.1",
        "bob@a.example",
        "5.2.2",
    )
