"""forget_recipient: personal data is removed, the proof stays, and nothing is sent meanwhile."""

import json
import threading
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import Eventually
from tests.integration.mail.shipments import MARKS, accepted, sending_meanwhile, ship
from weir.workers.mail import outbox, resolving, suppression
from weir.workers.mail.maintenance import forgetting
from weir.workers.mail.maintenance.forgetting import Forgotten, forget_recipient
from weir.workers.mail.models import Act, Email, MailAct, Rendering, Resolution, Suppression
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import leases, runner
from weir.workers.orders.models import SHIPPED

pytestmark = MARKS

KIM = "Kim.Personal@customers.example"
PROOF = ("message_id", "content_hash", "content_size", "state", "created_at", "sent_at", "relay", "provider_id", "key")


def queue(key: str, to: str = KIM, **fields: Any) -> Email:
    """Queue an e-mail about an order that exists, with these fields."""
    email = outbox.send_once(SHIPPED, f"about-{key}", to=f"Kim <{to}>", context={"order_id": int(ship().key)})
    Email.objects.filter(pk=email.pk).update(**fields)
    email.refresh_from_db()
    return email


def traces() -> str:
    """Return all that the tables of e-mails say, as text."""
    rows = [*Email.objects.values(), *Resolution.objects.values(), *MailAct.objects.values()]
    contents = [bytes(row.content).decode() for row in Rendering.objects.all()]
    return (json.dumps([*rows, *Suppression.objects.values()], default=str) + "".join(contents)).lower()


ENDED: dict[str, dict[str, Any]] = {
    EmailState.SENT: {"sent_at": Now(), "last_reply": f"250 <{KIM}> ok", "relay": "mx:25", "provider_id": "p-1"},
    EmailState.FAILED: {"last_reply": f"550 no {KIM}", "phase": Phase.NOT_BEGUN},
    EmailState.UNKNOWN: {
        "last_reply": f"lost {KIM}", "phase": Phase.BEGUN, "claim_token": uuid4(), "sending_since": Now(),
    },
    EmailState.BOUNCED: {"sent_at": Now(), "last_reply": f"5.1.1 {KIM}"},
    EmailState.CANCELLED: {},
    EmailState.SUPPRESSED: {"last_reply": "listed"},
    EmailState.EXPIRED: {"expires_at": Now(), "last_reply": f"451 {KIM} later"},
}  # fmt: skip


@pytest.mark.parametrize("state", ENDED)
def test_of_what_ended_the_proof_stays_and_nothing_personal(state: str) -> None:
    """In each state; the recipient, the name, the subject, the context, replies and contents are gone."""
    email = queue("1", state=state, earlier_reply=f"<{KIM}>", **ENDED[state])
    proof = {name: getattr(email, name) for name in PROOF}
    assert forget_recipient(KIM.swapcase().replace("CUSTOMERS.EXAMPLE", "customers.example"), "Ada", "asked") == (
        Forgotten(forgotten=1, cancelled=0, left=0)
    )
    email.refresh_from_db()
    assert {name: getattr(email, name) for name in PROOF} == proof
    assert (email.recipient, email.recipient_name, email.subject, email.context) == ("", "", "", {})
    assert "personal" not in traces()
    assert not Rendering.objects.filter(pk=email.pk).exists()


def test_what_was_said_about_it_names_the_address_no_more() -> None:
    """The resolutions stay, with who and why, but for the address and the replies."""
    email = queue("1", state=EmailState.UNKNOWN, **ENDED[EmailState.UNKNOWN])
    resolving.resolve(email.pk, Act.ARRIVED, "Ada", f"{KIM.upper()} called, it is there")
    forget_recipient(KIM, "Bob", "asked")
    said = Resolution.objects.get()
    assert (said.who, said.why, said.last_reply) == ("Ada", "<recipient> called, it is there", "")
    assert "personal" not in traces()


def test_what_waits_is_cancelled_and_other_addresses_are_left_alone(mail: MailServer) -> None:
    """Even what a mailer has claimed: the mailer notices before it begins."""
    waiting, later = queue("1"), queue("2")
    other = queue("3", f"x{KIM}")
    Email.objects.exclude(pk__in=[waiting.pk, later.pk, other.pk]).delete()
    claimed = leases.claim(1, uuid4())
    assert forget_recipient(KIM, "Ada", "asked") == Forgotten(forgotten=2, cancelled=2, left=0)
    assert set(Email.objects.filter(recipient="").values_list("state", flat=True)) == {EmailState.CANCELLED}
    with pytest.raises(leases.ClaimLost):
        leases.begin(claimed[0], "mx:25", None)
    assert set(Resolution.objects.values_list("act", "who", "why")) == {
        ("cancel", "Ada", "The recipient is forgotten: asked")
    }
    runner.send_due()
    assert [accepted(mail, email) for email in (waiting, later, other)] == [0, 0, 1]


@pytest.mark.usefixtures("mail")
def test_what_is_being_transmitted_is_forgotten_when_that_has_ended(eventually: Eventually) -> None:
    """Its mailer is not disturbed, and its reply is not lost."""
    email = ship("late-1500")
    with sending_meanwhile():
        eventually(lambda: Email.objects.get().state == EmailState.SENDING, "its transmission to begin")
        assert forget_recipient(email.recipient, "Ada", "asked") == Forgotten(forgotten=1, cancelled=0, left=0)
    email.refresh_from_db()
    assert (email.state, email.recipient) == (EmailState.SENT, "")


def test_how_many_are_left_is_said_where_a_relay_takes_long() -> None:
    """They are forgotten when it is repeated; a relay that is asked what became of one needs its content."""
    token: dict[str, Any] = {"claim_token": uuid4(), "sending_since": Now()}
    sending = queue("1", state=EmailState.SENDING, **token)
    asked = queue("2", ask_until=timezone.now(), relay="mx:25")
    assert forget_recipient(KIM, "Ada", "asked", wait_s=0) == Forgotten(forgotten=0, cancelled=0, left=2)
    Email.objects.filter(pk__in=[sending.pk, asked.pk]).update(
        state=EmailState.SENT, sent_at=Now(), claim_token=None, sending_since=None, ask_until=None
    )
    assert forget_recipient(KIM, "Ada", "asked", wait_s=0) == Forgotten(forgotten=2, cancelled=0, left=0)


def test_nothing_new_goes_out_to_the_address(mail: MailServer) -> None:
    """It is on the suppression list, only by its hash, even if it was there by its name."""
    suppression.suppress(KIM, "5.1.1")
    forget_recipient(KIM, "Ada", "asked")
    assert Suppression.objects.get().address == ""
    email = queue("1")
    runner.send_due()
    email.refresh_from_db()
    assert (email.state, accepted(mail, email)) == (EmailState.SUPPRESSED, 0)


def test_what_was_queued_beside_it_is_forgotten_by_the_mailer(mail: MailServer) -> None:
    """Its transaction commits after all others have been forgotten; only the mailer finds it."""
    done: list[Forgotten] = []

    def forget() -> None:
        try:
            done.append(forget_recipient(KIM, "Ada", "asked"))
        finally:
            connection.close()

    with transaction.atomic():
        email = queue("1")
        thread = threading.Thread(target=forget)
        thread.start()
        thread.join(20)
        assert done == [Forgotten(forgotten=0, cancelled=0, left=0)]
    other = queue("2", "list@customers.example")
    suppression.suppress(other.recipient, "5.1.1")
    runner.send_due()
    email.refresh_from_db()
    assert (email.state, email.recipient, email.context, accepted(mail, email)) == (EmailState.SUPPRESSED, "", {}, 0)
    assert "personal" not in traces()
    other.refresh_from_db()
    assert (other.state, other.recipient) == (EmailState.SUPPRESSED, "list@customers.example")


def test_the_act_is_kept_with_the_hash() -> None:
    """Whoever asks with that address can be told who had it forgotten, when and why."""
    forget_recipient(f" {KIM} ", "Ada", "Request 4711")
    act = MailAct.objects.get()
    assert (act.what, act.about, act.who, act.why) == (
        "forget", suppression.address_hash(KIM), "Ada", "Request 4711",
    )  # fmt: skip


def test_no_address_is_not_the_address_of_those_without_one() -> None:
    """An e-mail whose recipient is not known keeps its subject and what it is about."""
    email = queue("1", recipient="", state=EmailState.FAILED, last_reply="550")
    with pytest.raises(ValueError, match="which address"):
        forget_recipient("  ", "Ada", "asked")
    assert Email.objects.get(pk=email.pk).subject == email.subject != ""
    assert not Suppression.objects.exists()


@pytest.mark.parametrize(("who", "why"), [("", "x"), ("Ada", " ")])
def test_without_who_and_why_nothing_is_forgotten(who: str, why: str) -> None:
    email = queue("1")
    with pytest.raises(ValueError, match="Say who"):
        forget_recipient(KIM, who, why)
    email.refresh_from_db()
    assert (email.recipient, email.state) == (KIM, EmailState.PENDING)
    assert not Suppression.objects.exists()


def test_it_commits_batch_by_batch_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after a batch, what was forgotten stays so, and the next call goes on."""
    monkeypatch.setattr(forgetting, "BATCH", 2)
    for number in range(5):
        queue(str(number), state=EmailState.SENT, sent_at=Now())
    batches: list[int] = []
    forget = suppression.FORGET

    def forget_once(**parameters: Any) -> Any:
        if batches:
            raise KeyboardInterrupt
        batches.append(1)
        return forget(**parameters)

    with monkeypatch.context() as patched:
        patched.setattr(suppression, "FORGET", forget_once)
        with pytest.raises(KeyboardInterrupt):
            forget_recipient(KIM, "Ada", "asked")
    assert Email.objects.filter(recipient="").count() == 2
    assert forget_recipient(KIM, "Ada", "asked").forgotten == 3
    assert "personal" not in traces()


def test_more_that_wait_than_a_batch_are_all_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round by round, even if the call does not wait for anything (`wait_s=0`)."""
    monkeypatch.setattr(forgetting, "BATCH", 2)
    for number in range(5):
        queue(str(number))
    assert forget_recipient(KIM, "Ada", "asked", wait_s=0) == Forgotten(forgotten=5, cancelled=5, left=0)


def test_it_refuses_to_be_part_of_a_transaction() -> None:
    """Its batches have to be committed."""
    with transaction.atomic(), pytest.raises(RuntimeError):
        forget_recipient(KIM, "Ada", "asked")
    assert not Suppression.objects.exists()


def test_an_e_mail_that_is_sent_again_meanwhile_is_not_half_forgotten() -> None:
    """The row is locked: whoever comes second sees what the first did."""
    email = queue("1", state=EmailState.FAILED, last_reply="550", phase=Phase.NOT_BEGUN)
    done: list[Forgotten] = []

    def forget() -> None:
        try:
            done.append(forget_recipient(KIM, "Ada", "asked"))
        finally:
            connection.close()

    with transaction.atomic():
        resolving.resolve(email.pk, Act.RESEND, "Bob", "The mailbox works again")
        thread = threading.Thread(target=forget)
        thread.start()
        thread.join(1)
    thread.join(20)
    assert done == [Forgotten(forgotten=1, cancelled=1, left=0)]
    email.refresh_from_db()
    assert (email.state, email.recipient) == (EmailState.CANCELLED, "")
