"""`manage.py emails resend`: e-mails that failed for one reason are sent again together."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import Message
from tests.integration.mail.shipments import MARKS, accepted, ship, state
from tests.integration.mail.test_emails_command import refused, told
from weir.workers import task_names
from weir.workers.audit.models import Entry
from weir.workers.mail import resolving
from weir.workers.mail.actions import resending
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import runner
from weir.workers.orders.models import SHIPPED

pytestmark = MARKS
WHY = ("--why", "The server knows us again.", "--who", "Ada")


def failed(reply: str, *, kind: str = SHIPPED, minutes_ago: int = 5) -> Email:
    """Return an e-mail that failed with this reply."""
    email = ship()
    ended_at = Now() - timedelta(minutes=minutes_ago)
    Email.objects.filter(pk=email.pk).update(
        state=EmailState.FAILED, phase=Phase.NOT_BEGUN, last_reply=reply, attempts=3, ended_at=ended_at, kind=kind
    )
    return email


def data(*arguments: object) -> Any:
    return json.loads(told("resend", *arguments, "--json"))


@pytest.mark.parametrize("batch", [1, 500])
def test_what_failed_for_one_reason_is_sent_again(
    mail: MailServer, messages: list[Message], monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Those of the kind, with the reply, of that time. Each has a Resolution, each batch an entry and a wake-up."""
    monkeypatch.setattr(resending, "BATCH", batch)
    meant = [failed("Given up after 3 attempts: 550 Not from here"), failed("550 NOT from here, I know you not")]
    others = [
        failed("550 5.1.1 No such user"),
        failed("550 Not from here", kind="note"),
        failed("550 Not from here", minutes_ago=200),
    ]
    which = ("--kind", SHIPPED, "--reply", "550 not from here", "--since", "2h")
    assert told("resend", *which, "--dry-run") == "2 failed e-mails would be sent again.\n"
    messages.clear()
    assert told("resend", *which, *WHY) == "2 failed e-mails are sent again.\n"
    assert messages == [(task_names.SEND_EMAILS, ())] * (2 // batch or 1)
    assert {state(email) for email in meant} == {(EmailState.PENDING, 0)}
    assert {state(email) for email in others} == {(EmailState.FAILED, 3)}
    assert runner.send_due().sent == 2
    assert {accepted(mail, email) for email in meant} == {1}
    said = set(Resolution.objects.values_list("email", "act", "who", "why", "state"))
    assert said == {(email.pk, Act.RESEND, "Ada", WHY[1], EmailState.FAILED) for email in meant}
    entries = list(Entry.objects.filter(action="emails.resend").values_list("target", "after"))
    target = f"failed e-mails: kind {SHIPPED}, reply 550 not from here, since 2:00:00"
    assert entries == [(target, {"sent again": batch if batch == 1 else 2})] * (2 // batch or 1)


def test_what_somebody_left_unsent_may_have_arrived_and_is_not_among_them() -> None:
    email = ship()
    Email.objects.filter(pk=email.pk).update(
        state=EmailState.UNKNOWN,
        phase=Phase.AFTER_DOT,
        last_reply="No reply",
        sending_since=Now(),
        claim_token="0" * 32,
    )
    resolving.resolve(email.pk, Act.GIVE_UP, "Ada", "Nobody knows.")
    assert data("--all", *WHY) == {"resent": 0, "refused": []}
    assert state(email)[0] == EmailState.FAILED


def test_nothing_is_done_without_a_reason_a_choice_or_where_there_are_more_than_expected() -> None:
    emails = [failed("550 No") for _ in range(3)]
    assert "Say which: --kind, --reply, --since; or --all" in refused("resend", *WHY)
    assert "reason" in refused("resend", "--all")
    assert "There is no kind 'order.shiped'" in refused("resend", "--kind", "order.shiped", *WHY)
    assert "3 e-mails would be sent again, not 2 at most" in refused("resend", "--all", "--expect", 2, *WHY)
    assert {state(email)[0] for email in emails} == {EmailState.FAILED}
    assert data("--all", "--limit", 1, "--expect", 2, *WHY) == {"resent": 1, "refused": []}
    assert [state(email)[0] for email in emails] == [EmailState.PENDING, EmailState.FAILED, EmailState.FAILED]
    assert data("--since", "1h", "--dry-run") == {"would_resend": 2}


def test_what_changes_while_others_are_sent_again_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another operator sent it again, it became unknown, and it was left unsent. Or it failed again."""
    first, left, anew = failed("550 No"), failed("550 No"), failed("550 No")
    monkeypatch.setattr(resending, "BATCH", 1)
    resolve = resolving.resolve

    def meanwhile(email_id: int, *arguments: Any, **options: Any) -> Email:
        if email_id == first.pk:
            for act in (Act.RESEND, Act.GIVE_UP):
                resolve(left.pk, act, "Bob", "Nobody knows.")
                if act == Act.RESEND:
                    Email.objects.filter(pk=left.pk).update(
                        state=EmailState.UNKNOWN, phase=Phase.AFTER_DOT, sending_since=Now(), claim_token="0" * 32
                    )
            Email.objects.filter(pk=anew.pk).update(last_reply="551 Moved")
        return resolve(email_id, *arguments, **options)

    monkeypatch.setattr(resolving, "resolve", meanwhile)
    assert data("--reply", "550 No", "--since", "1h", *WHY)["resent"] == 1
    assert [state(email)[0] for email in (first, left, anew)] == [
        EmailState.PENDING,
        EmailState.FAILED,
        EmailState.FAILED,
    ]
