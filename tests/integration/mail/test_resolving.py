"""resolve: what an operator says about an e-mail that is unknown or failed."""

import pytest
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import InThreads, Message
from tests.integration.mail.shipments import DATABASE, accepted, redirect, ship
from weir import EmailAct, resolve_email
from weir.workers import task_names
from weir.workers.audit.models import Entry
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.resolving import CannotBeResolved
from weir.workers.mail.sending import runner
from weir.workers.orders.models import Order

pytestmark = DATABASE

SEND_MESSAGE = (task_names.SEND_EMAILS, ())


def unknown(word: str = "cut-accepted") -> Email:
    """Return an e-mail of which it is not known whether it arrived."""
    email = ship(word)
    runner.send_due()
    email.refresh_from_db()
    assert email.state == EmailState.UNKNOWN
    return email


@pytest.mark.usefixtures("messages")
def test_who_found_out_that_it_arrived_makes_it_sent(mail: MailServer) -> None:
    """With the time at which its transmission began; the row keeps who said so, why, and what was known."""
    email = unknown()
    since = email.sending_since
    resolved = resolving.resolve(email.pk, act=Act.ARRIVED, who="kim", why="In the mail server's log")
    assert (resolved.state, resolved.sent_at, resolved.claim_token) == (EmailState.SENT, since, None)
    (said,) = Resolution.objects.filter(email=email)
    assert (said.done, said.who, said.why) == (Act.ARRIVED, "kim", "In the mail server's log")
    assert (said.state, said.phase, said.claimed_by) == (EmailState.UNKNOWN, Phase.AFTER_DOT, email.claimed_by)
    assert "closed" in said.last_reply
    runner.send_due()
    assert accepted(mail, email) == 1


def test_who_accepts_the_risk_has_it_sent_again(mail: MailServer, messages: list[Message]) -> None:
    """Immediately, with all its attempts again, and under the same Message-ID."""
    email = unknown("cut-accepted")
    redirect(email, "plain")
    messages.clear()
    resolved = resolving.resolve(email.pk, act=Act.RESEND, who="kim", why="The customer says no")
    assert (resolved.state, resolved.attempts, resolved.sending_since) == (EmailState.PENDING, 0, None)
    assert messages == [SEND_MESSAGE]
    assert runner.send_due().sent == 1
    assert accepted(mail, email) == 2
    assert Email.objects.get(pk=email.pk).message_id == email.message_id


@pytest.mark.usefixtures("messages", "mail")
def test_a_failed_email_can_be_sent_again_but_cannot_have_arrived() -> None:
    """A person has corrected the address."""
    email = ship("refuse")
    runner.send_due()
    with pytest.raises(CannotBeResolved, match="is failed"):
        resolving.resolve(email.pk, act=Act.ARRIVED, who="kim", why="It seems so")
    redirect(email, "plain")
    resolving.resolve(email.pk, act=Act.RESEND, who="kim", why="The address is right now")
    assert runner.send_due().sent == 1


@pytest.mark.usefixtures("messages")
def test_what_was_left_unsent_may_have_arrived_and_is_not_rendered_anew(mail: MailServer) -> None:
    """Not even after the order was corrected. To send it again is the operator's risk, as for an unknown one."""
    email = unknown("cut-accepted")
    resolving.resolve(email.pk, act=Act.GIVE_UP, who="kim", why="Nobody will ever know")
    with pytest.raises(CannotBeResolved, match="may have arrived"):
        resolving.resolve(email.pk, act=Act.CORRECT, who="ada", why="A typing mistake", to="new@example.com")
    assert not Order.objects.get().is_correctable
    assert runner.send_due().sent == 0
    redirect(email, "plain")
    resolving.resolve(email.pk, act=Act.RESEND, who="ada", why="The customer says no")
    assert runner.send_due().sent == 1
    assert accepted(mail, email) == 2


@pytest.mark.usefixtures("messages", "mail")
def test_only_what_is_unknown_can_be_resolved_and_only_once(in_threads: InThreads) -> None:
    """Of two at the same time, one is refused, because nothing is left to resolve."""
    waiting = ship()
    for act in (Act.ARRIVED, Act.RESEND, Act.GIVE_UP):
        with pytest.raises(CannotBeResolved, match="is pending"):
            resolving.resolve(waiting.pk, act, who="kim", why="Impatience")
    runner.send_due()
    email = unknown()

    def say(number: int) -> bool:
        try:
            resolving.resolve(email.pk, act=(Act.RESEND, Act.ARRIVED)[number % 2], who=f"{number}", why="It seems so")
        except CannotBeResolved:
            return False
        return True

    assert sum(in_threads(6, say)) == 1
    assert Resolution.objects.count() == 1


@pytest.mark.usefixtures("messages", "mail")
@pytest.mark.parametrize(("who", "why"), [("", "x"), ("kim", ""), ("  ", "x"), ("kim", " \n")])
def test_who_and_why_must_be_said(who: str, why: str) -> None:
    """Otherwise the row could not tell later."""
    email = unknown()
    with pytest.raises(ValueError, match="Say who"):
        resolving.resolve(email.pk, act=Act.ARRIVED, who=who, why=why)
    assert not Resolution.objects.exists()


@pytest.mark.usefixtures("messages")
def test_an_email_that_does_not_exist_cannot_be_resolved() -> None:
    """The caller gets an error."""
    with pytest.raises(Email.DoesNotExist):
        resolving.resolve(4711, act=Act.ARRIVED, who="kim", why="x")


@pytest.mark.usefixtures("messages", "mail")
def test_what_code_decides_in_a_persons_name_is_in_the_audit_trail(settings: Settings) -> None:
    """Code decides itself who may: that operators change nothing now does not concern it."""
    settings.WEIR_OPS_READ_ONLY = True
    email = unknown()
    resolve_email(email.pk, EmailAct.ARRIVED, " kim ", "In the mail server's log")
    resolve_email(email.pk, EmailAct.BOUNCED, "kim", "5.1.1 No such user")
    arrived, bounced = Entry.objects.order_by("pk")
    assert (arrived.actor, arrived.door, arrived.action) == ("kim", "code", "emails.arrived")
    assert (arrived.target, arrived.why) == (f"e-mail {email.pk}", "In the mail server's log")
    assert [(change.was, change.became) for change in arrived.changes] == [("unknown", "sent")]
    assert (bounced.action, bounced.why) == ("emails.bounced", "5.1.1 No such user")
    with pytest.raises(ValueError, match="Say who"):
        resolve_email(email.pk, EmailAct.RESEND, "kim", " ")
    assert Entry.objects.count() == 2
