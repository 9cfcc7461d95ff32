"""Delivery reports have their effect: on the e-mail, on the suppression list, and on the application that listens."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from email.utils import format_datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError
from django.utils import timezone

from tests.integration.mail import shipments
from tests.unit.mail.bounces import written
from weir.workers.mail import resolving, suppression
from weir.workers.mail.bounces import handling
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.signals import email_bounced

pytestmark = [shipments.DATABASE, pytest.mark.usefixtures("messages")]

Heard = list[tuple[int, str, str]]


def came_to(state: EmailState) -> Email:
    """Return an e-mail in this state."""
    email = shipments.ship()
    fields: dict[str, Any] = {"state": state, "relay": "mx1:25"}
    if state == EmailState.SENT:
        fields["sent_at"] = timezone.now()
    elif state == EmailState.UNKNOWN:
        known = {"phase": Phase.AFTER_DOT, "last_reply": "gone"}
        fields |= {"claim_token": uuid4(), "sending_since": timezone.now(), **known}
    elif state == EmailState.FAILED:
        fields["last_reply"] = "550 no"
    Email.objects.filter(pk=email.pk).update(**fields)
    email.refresh_from_db()
    return email


def report(email: Email, *, to: str = "", about: str = "", **said: str) -> bytes:
    """Return a report about the e-mail, or about another one."""
    return written.of_recipient(to or email.recipient, returned=f"Message-ID: {about or email.message_id}\n", **said)


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What an application hears."""
    told: Heard = []

    def hear(*, email: Email, report: Any, **_arguments: Any) -> None:
        told.append((email.pk, Email.objects.get(pk=email.pk).state, report.status))

    email_bounced.connect(hear, weak=False)
    yield told
    email_bounced.disconnect(hear)


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Pipe an e-mail into the command; returns what it prints."""

    def pipe(content: bytes, *arguments: str) -> str:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        return told("-", *arguments)

    return pipe


def told(*arguments: str) -> str:
    output = StringIO()
    call_command("emails", "bounces", *arguments, stdout=output)
    return output.getvalue()


@pytest.mark.parametrize("state", [EmailState.SENT, EmailState.UNKNOWN])
def test_what_came_back_is_bounced_the_application_hears_it_and_the_address_is_suppressed(
    piped: Callable[..., str], heard: Heard, state: EmailState
) -> None:
    """Status and reason are kept, without the address."""
    email = came_to(state)
    text = piped(report(email))
    assert shipments.state(email)[0] == EmailState.BOUNCED
    assert email.last_reply == "5.1.1 550 5.1.1 <<recipient>>: User unknown"
    resolution = Resolution.objects.get()
    assert (resolution.act, resolution.who, resolution.state) == (Act.BOUNCED, handling.WHO, state)
    assert heard == [(email.pk, EmailState.BOUNCED, "5.1.1")]
    assert suppression.reasons([email.recipient])
    assert f"-: E-mail {email.pk}: failed. 5.1.1" in text
    assert "Read: 1. Bounced: 1." in text


def test_a_report_that_comes_again_changes_nothing(piped: Callable[..., str], heard: Heard) -> None:
    """Mail servers repeat themselves, and so does a reader that was killed before it marked the report."""
    email = came_to(EmailState.SENT)
    piped(report(email))
    text = piped(report(email))
    assert "Nothing was changed." in text
    assert len(heard) == Resolution.objects.count() == 1


@pytest.mark.parametrize("act", [Act.RESEND, Act.CORRECT])
@pytest.mark.parametrize(
    ("said", "arrived", "becomes"),
    [
        ("Arrival-Date", timedelta(hours=-1), EmailState.SENT),
        ("Arrival-Date", timedelta(minutes=-4), EmailState.BOUNCED),  # its clock may be slow
        ("Arrival-Date", timedelta(0), EmailState.BOUNCED),
        ("Date", timedelta(hours=-1), EmailState.SENT),
        ("Date", timedelta(0), EmailState.BOUNCED),
        ("Subject", timedelta(hours=-1), EmailState.BOUNCED),  # no time
    ],
)
def test_a_report_about_an_earlier_sending_says_nothing_of_the_one_that_was_ordered_since(
    piped: Callable[..., str], said: str, arrived: timedelta, becomes: EmailState, act: Act
) -> None:
    """One that comes late, or again: the Message-ID is the same, the time is not."""
    email = came_to(EmailState.FAILED)
    resolving.resolve(email.pk, act, "Ada", "The mailbox works again")
    line = f"{said}: {format_datetime(timezone.now() + arrived)}\n"
    Email.objects.filter(pk=email.pk).update(state=EmailState.SENT, sent_at=timezone.now())
    text = piped(report(email, **{"fields" if said == "Arrival-Date" else "headers": line}))
    assert shipments.state(email)[0] == becomes
    assert ("Nothing was changed. It is about what was sent before" in text) == (becomes == EmailState.SENT)
    assert bool(suppression.reasons([email.recipient])) == (becomes == EmailState.BOUNCED)


def test_a_servers_clock_that_is_wrong_hides_no_report_of_what_was_sent_once(piped: Callable[..., str]) -> None:
    """There is nothing else that it could be about."""
    email = came_to(EmailState.SENT)
    piped(report(email, fields="Arrival-Date: Thu, 1 Jan 1970 00:00:00 +0000\n"))
    assert shipments.state(email)[0] == EmailState.BOUNCED


@pytest.mark.parametrize("state", [EmailState.PENDING, EmailState.FAILED])
def test_what_no_mail_server_has_cannot_come_back(piped: Callable[..., str], state: EmailState) -> None:
    """An e-mail that waits goes out all the same."""
    email = came_to(state)
    assert "Nothing was changed." in piped(report(email))
    assert shipments.state(email)[0] == state


@pytest.mark.parametrize("action", ["delayed", "delivered", "relayed", "expanded"])
def test_what_is_no_failure_is_only_told(piped: Callable[..., str], heard: Heard, action: str) -> None:
    """The e-mail stays sent."""
    email = came_to(EmailState.SENT)
    assert f"E-mail {email.pk}: {action}." in piped(report(email, action=action, status="4.4.1"))
    assert shipments.state(email)[0] == EmailState.SENT
    assert heard == []


@pytest.mark.parametrize("action", ["delayed", "delivered", "relayed"])
def test_what_is_no_failure_proves_that_an_unknown_email_was_accepted(piped: Callable[..., str], action: str) -> None:
    """A mail server must have it to report about it. One that was not accepted anywhere stays as it is."""
    email, waiting = came_to(EmailState.UNKNOWN), came_to(EmailState.PENDING)
    for one in (email, waiting):
        piped(report(one, action=action, status="2.0.0"))
    assert (shipments.state(email)[0], shipments.state(waiting)[0]) == (EmailState.SENT, EmailState.PENDING)
    resolution = Resolution.objects.get()
    assert (resolution.email, resolution.act, resolution.who) == (email, Act.ARRIVED, handling.WHO)
    assert (email.delivered_at is not None) == (action == "delivered")


def test_only_an_address_that_does_not_exist_is_suppressed(piped: Callable[..., str]) -> None:
    """A full mailbox may have room tomorrow."""
    email = came_to(EmailState.SENT)
    piped(report(email, status="5.2.2"))
    assert shipments.state(email)[0] == EmailState.BOUNCED
    assert not suppression.reasons([email.recipient])


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        ({"about": "<order.shipped-1-000000000000@example.com>"}, "is not a Message-ID of ours"),
        ({"about": "<>"}, "is not a Message-ID of ours"),
        ({"to": "mallory@elsewhere.example"}, "it was not sent to that address"),
    ],
)
def test_a_report_is_believed_only_with_a_message_id_of_ours_and_the_recipients_address(
    piped: Callable[..., str], heard: Heard, forged: dict[str, str], words: str
) -> None:
    """Anyone can write a report; only the recipient knows the random part of the Message-ID."""
    email = came_to(EmailState.SENT)
    assert words in piped(report(email, **forged))
    assert shipments.state(email)[0] == EmailState.SENT
    assert heard == []


def test_the_address_is_recognised_in_any_case_of_letters(piped: Callable[..., str]) -> None:
    """Mail servers on the way may change it."""
    email = came_to(EmailState.SENT)
    piped(report(email, to=email.recipient.upper()))
    assert shipments.state(email)[0] == EmailState.BOUNCED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("new", "cur", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_a_maildir_is_read_to_its_end_and_people_find_what_is_no_report(folder: Path) -> None:
    """What was handled is marked as seen; what is not believed, or is an answer of a customer, is flagged."""
    email = came_to(EmailState.SENT)
    (folder / "new" / "1.a").write_bytes(report(email))
    (folder / "new" / "2.a").write_bytes(b"Subject: Where is my order?\n\nDear shop,\n")
    (folder / "cur" / "3.a:2,").write_bytes(report(email, about="<x@y>"))
    data = json.loads(told("--maildir", str(folder), "--json"))
    assert (data["read"], data["bounced"]) == (3, 1)
    assert [each["name"] for each in data["emails"]] == ["1.a", "2.a", "3.a:2,"]
    assert sorted(path.name for path in (folder / "cur").iterdir()) == ["1.a:2,S", "2.a:2,FS", "3.a:2,FS"]
    assert json.loads(told("--maildir", str(folder), "--json"))["read"] == 0


@pytest.mark.parametrize("error", [OperationalError("gone"), RuntimeError("a receiver's mistake")])
def test_what_could_not_be_handled_is_read_again(
    folder: Path, piped: Callable[..., str], heard: Heard, error: Exception
) -> None:
    """Then nothing is written, the report stays new, and a pipe asks the mail server to try again later."""
    email = came_to(EmailState.SENT)
    (folder / "new" / "1.a").write_bytes(report(email))

    def fail(**_arguments: Any) -> None:
        raise error

    email_bounced.connect(fail, weak=False)
    try:
        with pytest.raises(SystemExit) as of_maildir:
            told("--maildir", str(folder))
        with pytest.raises(SystemExit) as of_pipe:
            piped(report(email))
        assert of_maildir.value.code == of_pipe.value.code == 75
    finally:
        email_bounced.disconnect(fail)
    assert shipments.state(email)[0] == EmailState.SENT
    assert not Resolution.objects.exists()
    assert not suppression.reasons([email.recipient])
    heard.clear()
    told("--maildir", str(folder))
    assert heard == [(email.pk, EmailState.BOUNCED, "5.1.1")]


@pytest.mark.parametrize(
    "fields",
    [
        {"state": EmailState.SENDING, "claim_token": uuid4(), "sending_since": timezone.now()},
        {"ask_until": timezone.now()},
    ],
    ids=["sending", "asked"],
)
def test_a_report_that_is_faster_than_the_mailer_is_handled_later(
    folder: Path, piped: Callable[..., str], heard: Heard, fields: dict[str, Any]
) -> None:
    """Even if the mailer has died: the e-mail is unknown in the end, and the report says what became of it."""
    email = came_to(EmailState.PENDING)
    Email.objects.filter(pk=email.pk).update(**fields)
    (folder / "new" / "1.a").write_bytes(report(email))
    with pytest.raises(SystemExit) as of_maildir:
        told("--maildir", str(folder))
    with pytest.raises(SystemExit) as of_pipe:
        piped(report(email))
    assert of_maildir.value.code == of_pipe.value.code == 75
    unknown = {"claim_token": uuid4(), "sending_since": timezone.now(), "phase": Phase.BEGUN, "last_reply": "gone"}
    Email.objects.filter(pk=email.pk).update(state=EmailState.UNKNOWN, ask_until=None, **unknown)
    told("--maildir", str(folder))
    assert heard == [(email.pk, EmailState.BOUNCED, "5.1.1")]


@pytest.mark.parametrize("arguments", [(), ("-", "--maildir", "/nowhere"), ("--maildir", "/nowhere"), ("/nowhere",)])
def test_what_names_no_reports_is_refused(arguments: tuple[str, ...]) -> None:
    """In one sentence."""
    with pytest.raises(CommandError, match=r"Name a Maildir|is not a Maildir|No such file"):
        told(*arguments)
