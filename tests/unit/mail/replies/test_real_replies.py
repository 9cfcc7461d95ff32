"""What Weir makes of the replies of servers in use: those about us, and those about e-mails."""

from collections.abc import Callable, Iterable
from itertools import product

from tests.cases import for_each
from tests.unit.mail.replies.about_emails import ABOUT_EMAILS
from tests.unit.mail.replies.about_us import ABOUT_US
from weir.workers.mail.transports.replies import CLOSING, LONGEST, ReplyVerdict, SmtpStep, judge, status

REPLIES = [
    (step, int(reply[:3]), "\n".join(line[4:] for line in reply.split("\n")), verdict, why)  # as smtplib has it
    for verdict, why, replies in (*ABOUT_US, *ABOUT_EMAILS)
    for step, reply in replies
]


def misjudged(more: Callable[[str], Iterable[str]]) -> list[tuple[object, ...]]:
    """Return what is judged otherwise than the reply in the table that `more` made it of, with the reason there."""
    return [
        (step, code, text, verdict, why)
        for step, code, said, verdict, why in REPLIES
        for text in more(said)
        if judge(step, code, text) != verdict
    ]


def test_a_reply_means_what_an_operator_of_a_relay_would_have_it() -> None:
    """All e-mails wait if we are refused; this one waits or fails if it is."""
    assert misjudged(lambda said: (said, said.upper())) == []


def test_the_table_is_no_sample() -> None:
    """At least 150 replies, none twice, and each verdict that a refusal may have."""
    assert len({reply[:3] for reply in REPLIES}) == len(REPLIES) >= 150
    assert {verdict for *_, verdict, _ in REPLIES} == set(ReplyVerdict) - {ReplyVerdict.GO_ON}


def test_what_is_about_us_is_so_wherever_it_is_said() -> None:
    """Postfix and others judge client and sender at RCPT (smtpd_delay_reject), and providers after the dot."""
    about_us = [
        (code, said)
        for step, code, said, verdict, _ in REPLIES
        if verdict == ReplyVerdict.HELD and step in {SmtpStep.RCPT, SmtpStep.DATA, SmtpStep.CONTENT} and code != CLOSING
    ]
    elsewhere = product((SmtpStep.MAIL, SmtpStep.RCPT, SmtpStep.DATA), about_us)
    assert len(about_us) > 150
    assert [(step, *said) for step, said in elsewhere if judge(step, *said) != ReplyVerdict.HELD] == []


def test_addresses_and_names_of_hosts_say_nothing() -> None:
    """Whatever words of ours they are made of."""
    names = ("<sender@relay.example>", "sender@relay.example", "client.sender.example", "https://y.example/?ip=1")
    assert misjudged(lambda said: [f"{said} {name}" for name in names]) == []


@for_each(
    ("step", "code", "said", "verdict"),
    [
        (SmtpStep.MAIL, 504, "Helo command rejected", ReplyVerdict.HELD),
        (SmtpStep.RCPT, 550, "5.7.124 No", ReplyVerdict.NEVER),
        (SmtpStep.RCPT, 550, "5.7.133 No", ReplyVerdict.NEVER),
        (SmtpStep.RCPT, 550, "5.4.5 No", ReplyVerdict.HELD),
        (SmtpStep.RCPT, 550, "5.2.2 No", ReplyVerdict.LATER),
        (SmtpStep.RCPT, 552, "No", ReplyVerdict.LATER),
        (SmtpStep.RCPT, 452, "4.2.2 Limit exceeded", ReplyVerdict.LATER),
        (SmtpStep.CONTENT, 550, "5.7.25 No", ReplyVerdict.HELD),
        (SmtpStep.CONTENT, 550, "5.7.1 No", ReplyVerdict.DOUBTFUL),
        *((step, 550, "No", ReplyVerdict.DOUBTFUL) for step in (SmtpStep.RCPT, SmtpStep.DATA, SmtpStep.CONTENT)),
        *((SmtpStep.RCPT, 550, f"5.{of_it} No", ReplyVerdict.NEVER) for of_it in ("1.1", "1.10", "2.1", "4.4", "6.7")),
        *(
            (SmtpStep.RCPT, 550, f"5.{vague} No", ReplyVerdict.DOUBTFUL)
            for vague in ("0.0", "1.0", "2.0", "3.5", "5.2", "7.6")
        ),
        (SmtpStep.CONTENT, 550, "5.7.26 The sender is unauthenticated", ReplyVerdict.NEVER),
    ],
)
def test_where_words_do_not_tell_the_status_does_and_then_the_code(
    step: SmtpStep, code: int, said: str, verdict: ReplyVerdict
) -> None:
    """RFC 3463 and the pages of large receivers; RFC 5321, 4.2."""
    assert judge(step, code, said) == verdict


def test_a_sender_is_refused_also_where_the_email_has_letters_beyond_ascii() -> None:
    """RFC 6531, 3.5: 550 and 553 without a status are about these letters, unless they name us."""
    assert judge(SmtpStep.RCPT, 550, "Sender verify failed", is_utf8=True) == ReplyVerdict.HELD
    assert judge(SmtpStep.RCPT, 550, "No such letters", is_utf8=True) == ReplyVerdict.NEVER


@for_each(
    ("code", "said", "found"),
    [
        (550, "5.7.1: No", "7.1"),
        (550, "5.7.0, Mail Sending denied", "7.0"),
        (550, "#5.1.0 Address rejected", "1.0"),
        (553, "sorry, no mailbox here by that name (#5.1.1 - chkuser)", "1.1"),
        (553, "sorry, not in my list of allowed rcpthosts (#5.7.1)", "7.1"),
        (451, "Not now (#5.7.1)", ""),
        (550, "5.7.1.9 No", ""),
    ],
)
def test_a_status_is_read_where_servers_put_it(code: int, said: str, found: str) -> None:
    """Behind the code, also with a colon or a comma (RFC 2034, 4, has a blank), or in brackets as qmail's."""
    assert status(code, said) == found


def test_only_the_beginning_of_a_reply_is_read() -> None:
    """A server may say as much as it likes."""
    assert judge(SmtpStep.RCPT, 550, "No " * LONGEST + "Relay access denied") == ReplyVerdict.DOUBTFUL
