"""Logs settle unknown e-mails: the rows, the audit, and what is left alone."""

import io
import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from tests.integration.mail import shipments
from weir.workers.ledger.outcomes import Outcome as Sent
from weir.workers.mail import resolving
from weir.workers.mail.evidence import settling, verdicts
from weir.workers.mail.evidence.verdicts import LoggedAttempt, LogOutcome, LogVerdict, Vouched
from weir.workers.mail.management.evidence import WHO
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import leases

pytestmark = [shipments.DATABASE, pytest.mark.usefixtures("messages")]

SINCE = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
CHANGED = datetime(2026, 11, 20, 13, 0, 1, tzinfo=UTC)
COMPLETE = ("--complete-from", "2026-11-20T00:00+00:00", "--complete-until", "2026-11-21T00:00+00:00")
AROUND = """\
Nov 20 11:00:00 mx1 postfix/anvil[9]: statistics: max connection rate 1/60s
Nov 20 12:05:00 mx1 postfix/cleanup[9]: FFFFFF1: message-id=<other@example.com>
Nov 20 13:00:00 mx1 postfix/anvil[9]: statistics: max connection rate 1/60s
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "mail.log"
    path.write_text(AROUND)
    return path


def unknown(since: datetime = SINCE, relay: str = "") -> Email:
    """Return an e-mail that became unknown by an attempt that began then."""
    email = shipments.ship()
    known = {"phase": Phase.AFTER_DOT, "last_reply": "gone", "claimed_by": "mail-1:77", "relay": relay}
    Email.objects.filter(pk=email.pk).update(
        state=EmailState.UNKNOWN, claim_token=uuid4(), sending_since=since, attempts=1, **known
    )
    email.refresh_from_db()
    return email


def accept(log: Path, email: Email) -> str:
    """Let the log say that the e-mail was accepted; return the line that proves it."""
    proof = f"Nov 20 12:00:02 mx1 postfix/qmgr[7]: A{email.pk:06}: from=<a@b>, size=1, nrcpt=1 (queue active)"
    named = f"Nov 20 12:00:01 mx1 postfix/cleanup[6]: A{email.pk:06}: message-id={email.message_id}"
    lines = [named, proof, *log.read_text().splitlines()]
    log.write_text("".join(f"{line}\n" for line in sorted(lines, key=lambda line: line[:15])))
    return proof


def told(log: object, *arguments: str, changed: datetime = CHANGED) -> str:
    """Return what the command prints about the files, which were last changed at `changed`."""
    output = StringIO()
    files = log if isinstance(log, list) else [log]
    for file in files:
        if isinstance(file, Path) and file.exists():
            os.utime(file, (changed.timestamp(),) * 2)
    call_command("emails", "evidence", *map(str, files), "--zone", "UTC", *arguments, stdout=output)
    return output.getvalue()


def _resolve(email_id: int, act: Act, why: str) -> None:
    resolving.resolve(email_id, act, WHO, why, may_be_late=False)


def settle(log: Path, *, apply: bool) -> settling.EvidenceReport:
    os.utime(log, (CHANGED.timestamp(),) * 2)
    vouched = Vouched(complete_from=SINCE - timedelta(hours=1), complete_until=SINCE + timedelta(hours=1))
    return settling.settle([str(log)], vouched, settling.Given(UTC), _resolve if apply else None)


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(log: Path) -> None:
    """It is the default."""
    arrived, lost, late = unknown(), unknown(), unknown(SINCE + timedelta(hours=1))
    proof = accept(log, arrived)
    before = list(Email.objects.order_by("pk").values())
    text = told(log, *COMPLETE)
    assert f"E-mail {arrived.pk}: accepted, it would be sent. {proof}" in text
    assert f"E-mail {lost.pk}: not accepted, it would be sent again. It is not in the logs" in text
    assert f"E-mail {late.pk}: still unknown. The logs have no line of it" in text
    assert "1 accepted, 1 not accepted, 1 still unknown." in text
    assert "mx1: 5 lines from 2026-11-20 11:00:00 until 2026-11-20 13:00:00 UTC." in text
    assert "--apply does it" in text
    assert list(Email.objects.order_by("pk").values()) == before
    assert not Resolution.objects.exists()


def test_applied_what_is_proven_is_written_down_with_its_proof(log: Path) -> None:
    """What was accepted is sent, what certainly was not goes out again, everything else waits for an operator."""
    arrived, lost, late = unknown(), unknown(), unknown(SINCE + timedelta(hours=1))
    proof = accept(log, arrived)
    text = told(log, *COMPLETE, "--apply", "--who", "Ada")
    assert [shipments.state(each)[0] for each in (arrived, lost, late)] == [
        EmailState.SENT,
        EmailState.PENDING,
        EmailState.UNKNOWN,
    ]
    assert arrived.sent_at == SINCE
    said = {each.email_id: (each.act, each.who, each.why) for each in Resolution.objects.all()}
    assert said.keys() == {arrived.pk, lost.pk}
    assert said[arrived.pk] == (Act.ARRIVED, "Ada", proof)
    assert said[lost.pk][:2] == (Act.RESEND, "Ada")
    assert "the logs are complete from 2026-11-20 11:55:00 UTC until 2026-11-20 12:35:00 UTC" in said[lost.pk][2]
    assert f"E-mail {lost.pk}: not accepted, it is sent again." in text
    assert told(log, *COMPLETE, "--apply").startswith(f"E-mail {late.pk}: still unknown")


def test_what_certainly_was_not_accepted_expires_if_its_time_is_over(log: Path) -> None:
    """A log cannot say that it may be sent late: only an operator can."""
    over, in_time = unknown(), unknown()
    ends_at = datetime(2100, 1, 1, tzinfo=UTC)
    Email.objects.filter(pk=over.pk).update(expires_at=SINCE + timedelta(minutes=5))
    Email.objects.filter(pk=in_time.pk).update(expires_at=ends_at)
    told(log, *COMPLETE, "--apply", "--who", "Ada")
    assert leases.end_expired(60.0) == 1
    assert [shipments.state(each)[0] for each in (over, in_time)] == [EmailState.EXPIRED, EmailState.PENDING]
    assert in_time.expires_at == ends_at


def test_logs_of_one_relay_say_nothing_of_what_went_to_another(log: Path, settings: Settings) -> None:
    """Unless an option names the relay, it is that of the settings, if that is a mail server."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "mx1", 25
    first, second = unknown(relay="mx1:25"), unknown(relay="mx2:25")
    told(log, *COMPLETE, "--apply")
    assert [shipments.state(each)[0] for each in (first, second)] == [EmailState.PENDING, EmailState.UNKNOWN]
    told(log, *COMPLETE, "--apply", "--relay", "mx2:25")
    assert shipments.state(second)[0] == EmailState.PENDING


@pytest.mark.parametrize(
    ("relays", "relay"),
    [
        ([], "mx1:25"),  # EMAIL_BACKEND calls an API, and EMAIL_HOST has its default
        (["resend://key@api.resend.com"], "resend:api.resend.com"),
        (
            ["django://django.core.mail.backends.dummy.EmailBackend"],
            "django:django.core.mail.backends.dummy.EmailBackend",
        ),
    ],
)
def test_logs_of_a_mail_server_say_nothing_of_what_went_to_an_api(
    log: Path, settings: Settings, relays: list[str], relay: str
) -> None:
    """Even if no other relay is named; an e-mail that a log does name is proven all the same."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.WEIR_MAIL_RELAYS = "mx1", 25, relays
    silent, handed_on = unknown(relay=relay), unknown(relay=relay)
    accept(log, handed_on)
    text = told(log, *COMPLETE, "--apply")
    assert f"it went to {relay}, and no option says that these are its logs (--relay)." in text
    assert [shipments.state(each)[0] for each in (silent, handed_on)] == [EmailState.UNKNOWN, EmailState.SENT]
    told(log, *COMPLETE, "--apply", "--relay", relay)
    assert shipments.state(silent)[0] == EmailState.PENDING


def test_the_proof_is_kept_without_the_recipients_address(log: Path) -> None:
    """Resolutions are kept for longer than addresses."""
    email = unknown()
    accept(log, email)
    line = f"A{email.pk:06}: to=<{email.recipient.upper()}>, status=sent (250 2.1.5 <{email.recipient}> OK)"
    log.write_text(re.sub(r"qmgr\[7\]: .* \(queue active\)", f"smtp[8]: {line}", log.read_text()))
    told(log, "--apply")
    why = email.resolutions.get().why
    assert "to=<<recipient>>, status=sent (250 2.1.5 <<recipient>> OK)" in why


def test_without_a_word_on_completeness_nothing_is_sent_again(log: Path) -> None:
    """A log alone cannot show that it has all lines."""
    arrived, lost = unknown(), unknown()
    accept(log, arrived)
    text = told(log, "--apply")
    assert [shipments.state(each)[0] for each in (arrived, lost)] == [EmailState.SENT, EmailState.UNKNOWN]
    assert "no option says that they are complete (--complete-from, --complete-until)" in text


def test_machines_read_the_same_and_stdin_is_a_log(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One JSON object; lines that are not understood are counted."""
    email = unknown()
    proof = accept(log, email)
    content = b"what is this\n" + log.read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    data = json.loads(told("-", "--json"))
    assert data["emails"] == [
        {"id": email.pk, "message_id": email.message_id, "outcome": "accepted", "why": proof, "resolved": False}
    ]
    assert data["counts"] == {"accepted": 1, "not accepted": 0, "still unknown": 0}
    assert (data["logs"]["lines"], data["logs"]["not_understood"], data["logs"]["samples"]) == (6, 1, ["what is this"])


@pytest.mark.parametrize("apply", [True, False])
def test_a_file_that_cannot_be_read_ends_it_before_anything_is_resolved(log: Path, apply: bool) -> None:
    """One sentence, and no row is changed."""
    email = unknown()
    accept(log, email)
    with pytest.raises(CommandError, match=r"none\.log: No such file or directory\."):
        told([log, log.parent / "none.log"], *["--apply"] * apply)
    assert shipments.state(email)[0] == EmailState.UNKNOWN


def by_a_late_worker(email: Email) -> None:
    assert leases.record(email, Sent(state=EmailState.FAILED, phase=Phase.AFTER_DOT, last_reply="554 no", attempts=1))


def by_an_operator(email: Email) -> None:
    resolving.resolve(email.pk, Act.ARRIVED, "Ada", "she has it")


def by_another_attempt(email: Email) -> None:
    Email.objects.filter(pk=email.pk).update(sending_since=SINCE + timedelta(minutes=20), claim_token=uuid4())


@pytest.mark.parametrize("meanwhile", [by_a_late_worker, by_an_operator, by_another_attempt])
def test_whoever_is_faster_counts(log: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: object) -> None:
    """Between the reading of the logs and the row, a worker may report, an operator resolve, another attempt begin."""
    email = unknown()
    assert callable(meanwhile)

    def judge_then(*_arguments: object) -> LogVerdict:
        meanwhile(email)
        return LogVerdict(outcome=LogOutcome.NOT_ACCEPTED, why="It is not in the logs.")

    monkeypatch.setattr(settling, "judge", judge_then)
    (judged,) = settle(log, apply=True).judged
    assert not judged.resolved
    assert shipments.state(email)[0] != EmailState.PENDING
    assert not Resolution.objects.filter(who=WHO).exists()


def test_the_attempt_is_judged_until_it_has_ended_for_certain(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From `begin`, for WEIR_MAIL_UNKNOWN_AFTER: no worker that lives takes longer."""
    email = unknown(relay="mx1:25")
    asked: list[LoggedAttempt] = []

    def note(attempt: LoggedAttempt, *arguments: object) -> LogVerdict:
        asked.append(attempt)
        return verdicts.judge(attempt, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(settling, "judge", note)
    settle(log, apply=False)
    bare = email.message_id.strip("<>")
    assert asked == [LoggedAttempt(message_id=bare, relay="mx1:25", since=SINCE, until=SINCE + timedelta(minutes=30))]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--complete-from", "noon", "must be a time such as 2026-11-23T17:20"),
        ("--zone", "Atlantis", "must be a time zone such as Europe/Berlin"),
        ("--host-of", "mx1", "must be a host and its files"),
        ("--year", "now", "--year"),
        ("--who", " ", "it must not be blank"),
        ("--who", "a" * 255, "254 characters at most"),
        ("--clock-error", "-5", "--clock-error"),
    ],
)
def test_what_is_typed_wrongly_is_refused(log: Path, option: str, value: str, words: str) -> None:
    """The refusal is one sentence that says what is expected."""
    with pytest.raises(CommandError, match=words):
        told(log, f"{option}={value}")


def test_a_log_that_names_an_email_in_a_form_of_its_own_never_has_it_sent_again(log: Path) -> None:
    """Two hosts stand behind the relay's name; the second one, which took the e-mail, writes RFC 5424."""
    email = unknown()
    other = log.parent / "mx2.log"
    named = f"message-id={email.message_id}"
    lines = [
        ("11:00:00", "anvil", "statistics: max connection rate 1/60s"),
        ("12:00:01", "cleanup", f"4Fx1zB2cD3z5vK7: {named}"),
        ("12:00:02", "qmgr", "4Fx1zB2cD3z5vK7: from=<a@b>, size=900, nrcpt=1 (queue active)"),
        ("13:00:00", "anvil", "statistics: max connection rate 1/60s"),
    ]
    written = [f"<22>1 2026-11-20T{time}+00:00 mx2 postfix/{program} 7 - - {text}" for time, program, text in lines]
    other.write_text("\n".join([written[0], f"mx2 maild took {named}", written[3]]) + "\n")
    text = told([log, other], *COMPLETE, "--apply")
    assert f"E-mail {email.pk}: still unknown. A line has its Message-ID" in text
    assert shipments.state(email)[0] == EmailState.UNKNOWN
    other.write_text("\n".join(written) + "\n")
    assert f"E-mail {email.pk}: accepted, it is sent." in told([log, other], *COMPLETE, "--apply")
    assert shipments.state(email)[0] == EmailState.SENT


def test_what_cannot_be_unpacked_is_said_and_what_another_file_proves_counts(log: Path) -> None:
    """The sentence says what to do about the file."""
    arrived, lost = unknown(), unknown()
    accept(log, arrived)
    packed = log.parent / "mail.log.2.lz4"
    packed.write_bytes(b"\x04\x22\x4d\x18" + bytes(range(256)))
    text = told([log, packed], *COMPLETE, "--apply")
    assert [shipments.state(each)[0] for each in (arrived, lost)] == [EmailState.SENT, EmailState.UNKNOWN]
    assert "is packed by lz4, and cannot be read here: give what comes out of it (lz4 -dc)" in text, text


def test_whoever_asks_says_what_the_files_do_not(log: Path) -> None:
    """Options name the year of lines without one, and the host whose lines they are."""
    lost, later = unknown(), CHANGED + timedelta(days=90)
    assert "say --year" in told(log, *COMPLETE, changed=later)
    log.write_text(log.read_text().replace("mx1", "localhost"))
    other = log.parent / "b.log"
    other.write_text(log.read_text().partition("\n")[2])
    complete = (*COMPLETE, "--year", "2026")
    assert f"those of {other} begin at" in told([log, other], *complete, changed=later)
    hosts = ("--host-of", f"mx1={log.parent}/*.log")
    assert told([log, other], *complete, *hosts, changed=later).startswith(f"E-mail {lost.pk}: not accepted")


def test_lines_that_somebody_has_looked_at_are_no_doubt(log: Path) -> None:
    """The command shows them, and its sentence names the option."""
    lost = unknown()
    log.write_text(AROUND.replace("Nov 20 12:05", "*** starting ***\nNov 20 12:05"))
    assert "say --strange-lines-harmless" in told(log, *COMPLETE)
    assert told(log, *COMPLETE, "--strange-lines-harmless").startswith(f"E-mail {lost.pk}: not accepted")
