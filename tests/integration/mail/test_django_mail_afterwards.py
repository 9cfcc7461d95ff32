"""What becomes of messages that Django sent through OutboxBackend: forgetting, reports, logs, operators, relays."""

from uuid import uuid4

import pytest
from django.core.mail import EmailMessage
from django.db.models.functions import Now
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import DATABASE
from tests.integration.mail.test_believed_reports import handled, report
from tests.integration.mail.test_evidence import SINCE, accept, log, settle  # noqa: F401  a fixture
from weir.workers.mail import checks, renderings, resolving, suppression
from weir.workers.mail.evidence.verdicts import LogOutcome
from weir.workers.mail.maintenance import forgetting
from weir.workers.mail.maintenance.purge import purge
from weir.workers.mail.models import Act, Email, Rendering
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import runner
from weir.workers.mail.transports import relays

pytestmark = [DATABASE, pytest.mark.usefixtures("mail", "messages")]

KIM, LEE = "kim.personal@customers.example", "lee@customers.example"


@pytest.fixture(autouse=True)
def _outbox(mail: MailServer, settings: Settings) -> None:  # noqa: ARG001  its settings come first
    settings.EMAIL_BACKEND = "weir.OutboxBackend"


def send(*to: str, **headers: str) -> list[Email]:
    """Send a message to these addresses; return its e-mails, in this order."""
    EmailMessage("Note", str(uuid4()), "shop@shop.example", to, headers=headers).send()
    return sorted(Email.objects.order_by("-pk")[: len(to)], key=lambda email: to.index(email.recipient))


def become(state: EmailState, *emails: Email, **fields: object) -> None:
    Email.objects.filter(pk__in=[email.pk for email in emails]).update(state=state, **fields)
    for email in emails:
        email.refresh_from_db()


def unknown(*emails: Email) -> None:
    """Let these be unknown since the time of the logs."""
    known = {"sending_since": SINCE, "phase": Phase.AFTER_DOT, "last_reply": "gone"}
    for email in emails:
        become(EmailState.UNKNOWN, email, claim_token=uuid4(), **known)


def contents() -> str:
    return b"".join(bytes(each.content) for each in Rendering.objects.all()).decode()


def test_nothing_is_sent_to_a_suppressed_address(mail: MailServer) -> None:
    """The other recipients get the message."""
    suppression.suppress(KIM, "It complained.")
    kim, lee = send(KIM, LEE)
    before = len(mail.events())
    assert (runner.send_due().suppressed, runner.send_due().sent) == (1, 0)
    kim.refresh_from_db()
    lee.refresh_from_db()
    assert (kim.state, lee.state) == (EmailState.SUPPRESSED, EmailState.SENT)
    assert KIM not in {event.recipient for event in mail.events()[before:]}


def test_a_forgotten_address_leaves_the_messages_to_others_too() -> None:
    """Those that have ended lose their content at once; those that wait are sent, and lose it with the next purge."""
    ended, waits = send(KIM, LEE), send(LEE, KIM)
    other = send(LEE)
    become(EmailState.SENT, *ended, sent_at=Now())
    found = forgetting.forget_recipient(KIM, "Ada", "asked")
    assert (found.forgotten, found.cancelled, found.left) == (2, 1, 0)
    assert set(Rendering.objects.values_list("pk", flat=True)) == {waits[0].pk, other[0].pk}
    assert runner.send_due().sent == 2
    assert KIM in contents()
    assert purge() == 1
    assert KIM not in contents()
    assert set(Email.objects.exclude(recipient="").values_list("recipient", flat=True)) == {LEE}
    assert Rendering.objects.get().pk == other[0].pk


def test_what_comes_written_is_sent_again_while_it_is_kept_and_never_rendered_anew() -> None:
    """Operators learn in a sentence what they can do instead."""
    (email,) = send(KIM)
    with pytest.raises(resolving.CannotBeResolved, match=r"not rendered anew.*Have the project send the message again"):
        resolving.resolve(email.pk, Act.CORRECT, "Ada", "typo", to=LEE)
    become(EmailState.FAILED, email, last_reply="550")
    before = email.content_hash
    assert resolving.resolve(email.pk, Act.RESEND, "Ada", "fixed").content_hash == before
    assert runner.send_due().sent == 1
    Rendering.objects.all().delete()
    become(EmailState.BOUNCED, email)
    with pytest.raises(
        resolving.CannotBeResolved, match=r"is not kept any more.*Have the project send the message again"
    ):
        resolving.resolve(email.pk, Act.RESEND, "Ada", "again")


def test_a_report_about_a_message_to_several_is_believed_by_an_address_of_its_own(settings: Settings) -> None:
    """Each recipient knows the Message-ID, and could report that another one's mailbox does not exist."""
    emails = send(KIM, LEE)
    chosen = send(KIM, **{"Message-ID": "<order-17@shop.example>"})
    become(EmailState.SENT, *emails, *chosen, sent_at=Now())
    for email in (emails[1], chosen[0]):
        said = handled(report(email, about=f"Message-ID: {email.message_id}\n"))
        assert not said.believed
        assert "others than the recipient may know" in said.sentence
        assert "WEIR_MAIL_ENVELOPE_SENDER, with {id}" in said.sentence
    settings.WEIR_MAIL_ENVELOPE_SENDER = "bounces+{id}@shop.example"
    named = renderings.envelope_sender(emails[1])
    assert handled(report(emails[1], headers=f"To: {named}\n")).bounced
    assert suppression.reasons([KIM, LEE]).keys() == {LEE}
    assert [Email.objects.get(pk=email.pk).state for email in emails] == [EmailState.SENT, EmailState.BOUNCED]


def test_a_report_about_a_message_to_one_is_believed() -> None:
    """Only that recipient, and the mail servers, know the Message-ID that Django has made."""
    (email,) = send(KIM)
    become(EmailState.SENT, email, sent_at=Now())
    assert handled(report(email, about=f"Message-ID: {email.message_id}\n")).bounced


def test_a_log_settles_a_message_to_one(log) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001, F811
    """As for any e-mail."""
    (arrived,), (lost,) = send(KIM), send(LEE)
    unknown(arrived, lost)
    accept(log, arrived)
    assert [each.verdict.outcome for each in settle(log, apply=True).judged] == [
        LogOutcome.ACCEPTED, LogOutcome.NOT_ACCEPTED,
    ]  # fmt: skip


def test_a_line_that_accepts_a_message_to_several_does_not_say_which(log) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001, F811
    """It may be the other recipient's. Without such a line, none was accepted: each is sent again, if it is kept."""
    accepted, lost = send(KIM, LEE), send(KIM, LEE)
    unknown(*accepted, *lost)
    accept(log, accepted[0])
    Rendering.objects.filter(pk=lost[1].pk).delete()
    judged = settle(log, apply=True).judged
    assert [each.verdict.outcome for each in judged[:2]] == [LogOutcome.STILL_UNKNOWN] * 2
    assert "the log does not say which of them was accepted" in judged[0].verdict.why
    assert [each.resolved for each in judged] == [False, False, True, False]
    assert "not kept any more" in judged[3].verdict.why


def test_a_provider_gets_another_key_for_each_recipient() -> None:
    """It would take the second one for a repetition of the first, and send nothing."""
    emails = send(KIM, LEE)
    keys = [renderings.message(email, email.rendering).idempotency_key for email in emails]
    assert len(set(keys)) == 2
    assert keys == [renderings.message(email, email.rendering).idempotency_key for email in emails]
    (alone,) = send(KIM)
    assert renderings.message(alone, alone.rendering).idempotency_key == f"{alone.message_id.strip('<>')}/1"


def test_the_outbox_is_never_its_own_relay(settings: Settings) -> None:
    """A check says so; and if it is ignored, e-mails wait, and none is added."""
    assert checks.outbox_is_not_its_own_relay() == []
    assert relays.relays()[0].is_smtp
    settings.WEIR_MAIL_RELAYS = ["django://weir.OutboxBackend"]
    (found,) = checks.outbox_is_not_its_own_relay()
    assert (found.id, found.msg.partition(": ")[2]) == (
        "weir.E040", "weir.OutboxBackend is the outbox itself: name a mail server, such as smtp://HOST:25.",
    )  # fmt: skip
    assert checks.mail_backend_tells_its_phase() == []
    settings.WEIR_MAIL_RELAYS = [f"django://{__name__}.Wrapping"]
    (email,) = send(KIM)
    assert "make the outbox its own relay" in runner.send_due().stopped_because
    assert Email.objects.get().state == EmailState.PENDING
    assert email.attempts == 0


class Wrapping:
    """A backend of a project's that hands messages on to the default one, as some that log or redirect do."""

    def __init__(self, **_options: object) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def send_messages(self, messages: list[EmailMessage]) -> int:
        from django.core.mail import get_connection  # noqa: PLC0415

        return get_connection().send_messages(messages)
