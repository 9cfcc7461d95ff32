"""What Weir makes of the replies of servers in use: those about us, and those about e-mails."""

import pytest

from tests.unit.mail.replies.about_emails import ABOUT_EMAILS
from tests.unit.mail.replies.about_us import ABOUT_US
from workers.mail.transports.replies import Step, Verdict, judge

REPLIES = [
    pytest.param(step, reply, verdict, why, id=f"{step} {reply}")
    for verdict, why, replies in (*ABOUT_US, *ABOUT_EMAILS)
    for step, reply in replies
]


@pytest.mark.parametrize(("step", "reply", "verdict", "why"), REPLIES)
def test_a_reply_means_what_an_operator_of_a_relay_would_have_it(
    step: Step, reply: str, verdict: Verdict, why: str
) -> None:
    """All of them wait if we are refused; this e-mail waits or fails if it is."""
    first, *more = reply.split("\n")
    said = "\n".join([first[4:], *(line[4:] for line in more)])  # as smtplib has it
    assert judge(step, int(first[:3]), said) == verdict, why


def test_the_table_is_no_sample() -> None:
    """At least 150 replies, none twice, and each verdict that a refusal may have."""
    said = [(step, reply) for _, _, replies in (*ABOUT_US, *ABOUT_EMAILS) for step, reply in replies]
    assert len(set(said)) == len(said) >= 150
    assert {verdict for verdict, _, _ in (*ABOUT_US, *ABOUT_EMAILS)} == set(Verdict) - {Verdict.GO_ON}
