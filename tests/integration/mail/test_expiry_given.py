"""Until when an e-mail may be sent: how callers, kinds and operators set it, and what they see of it."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import database_now
from tests.integration.mail.notes import note, note_kind
from tests.integration.mail.shipments import MARKS, accepted, state
from weir.workers.mail import kinds, outbox, resolving
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.kinds import Content
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.reports import counts, listing
from weir.workers.mail.reports.why import why
from weir.workers.mail.sending import leases, runner

pytestmark = [*MARKS, pytest.mark.usefixtures("note_kind")]
__all__ = ["note_kind"]
HOUR, QUARTER, SECOND = timedelta(hours=1), timedelta(minutes=15), timedelta(seconds=1)


@pytest.fixture
def _code_kind(monkeypatch: pytest.MonkeyPatch, note_kind: None) -> None:  # noqa: ARG001  it patches first
    """Register the kind `login.code`, as an app would; its e-mails may be sent for a quarter of an hour."""
    monkeypatch.setattr(kinds, "_expires_after", {})
    kinds.register("login.code", expires_after=QUARTER)(lambda: Content(subject="Your code", text="123456"))


def code(key: str = "17", **changes: Any) -> Email:
    return outbox.send_once("login.code", key, to="kim@customers.example", **changes)


def expired(key: str = "17") -> Email:
    email = note(key, expires_at=timezone.now() + HOUR)
    Email.objects.filter(pk=email.pk).update(expires_at=Now())
    assert leases.end_expired(60.0) == 1
    email.refresh_from_db()
    return email


# --- by callers and kinds -------------------------------------------------------------------------


def test_it_is_stored_as_it_was_given_and_without_one_it_never_expires() -> None:
    ends_at = timezone.now() + HOUR
    emails = [note("1", expires_at=ends_at), note("2")]
    assert [email.expires_at for email in emails] == [ends_at, None]
    assert list(Email.objects.order_by("pk").values_list("expires_at", flat=True)) == [ends_at, None]


@pytest.mark.usefixtures("_code_kind")
def test_its_kind_says_for_how_long() -> None:
    """By the database's clock; from `not_before` on, if that is later; a caller's `expires_at` takes precedence."""
    email, past, later = code("1"), code("2", not_before=timezone.now() - HOUR), timezone.now() + HOUR
    for each in (email, past):
        assert each.expires_at
        assert abs(each.expires_at - QUARTER - database_now()) < 10 * SECOND
    assert code("3", not_before=later).expires_at == later + QUARTER
    assert code("4", expires_at=later).expires_at == later
    assert code("5", expires_at=later + HOUR, not_before=later).expires_at == later + HOUR
    assert email.expires_at == Email.objects.get(pk=email.pk).expires_at


def test_one_that_is_past_is_refused_and_the_callers_transaction_goes_on() -> None:
    """An e-mail that could never be sent is a mistake of the caller's, even with `raises=False`."""
    with transaction.atomic():
        for raises in (True, False):
            with pytest.raises(CannotBeWritten, match="expires_at is past, so that it would never be sent: 20"):
                note(expires_at=timezone.now() - SECOND, raises=raises)
        assert not Email.objects.exists()


def test_a_second_call_that_comes_too_late_finds_the_email_of_the_first() -> None:
    """A task that is delivered twice makes such a call: the first call counts, and its time."""
    email = note(expires_at=timezone.now() + HOUR)
    assert note(expires_at=timezone.now() - HOUR) == email
    assert Email.objects.get().expires_at == email.expires_at


# --- by operators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("act", [Act.RESEND, Act.CORRECT])
def test_who_has_it_sent_again_lifts_its_time(act: Act, mail: MailServer) -> None:
    """Otherwise it would expire again immediately."""
    email = expired()
    resolving.resolve(email.pk, act, "kim", "it is wanted all the same")
    assert state(email) == (EmailState.PENDING, 0)
    assert (email.expires_at, email.ended_at) == (None, None)
    leases.end_expired(60.0)
    assert runner.send_due().sent == 1
    assert accepted(mail, email) == 1


def test_a_correction_of_one_that_waits_keeps_its_time() -> None:
    email = note(expires_at=timezone.now() + HOUR)
    resolving.resolve(email.pk, Act.CORRECT, "kim", "a typing mistake", to="kim@example.com")
    assert Email.objects.get().expires_at == email.expires_at


def test_the_command_says_that_it_does_not_expire_any_more(capsys: pytest.CaptureFixture[str]) -> None:
    """It says so of those that had expired."""
    ends, stays = expired("1"), note("2")
    Email.objects.filter(pk=stays.pk).update(state=EmailState.CANCELLED)
    call_command("emails", "resolve", ends.pk, stays.pk, "--resend", "--why", "it is wanted", "--who", "kim")
    assert capsys.readouterr().out.splitlines() == [
        f"E-mail {ends.pk}: it is sent again, and does not expire any more.",
        f"E-mail {stays.pk}: it is sent again.",
    ]


# --- what they see --------------------------------------------------------------------------------


def test_it_is_counted_and_listed() -> None:
    email = expired()
    assert counts.by_state().expired == 1
    for wanted in (listing.EmailFilters(state="expired"), listing.EmailFilters(state="expired", kind="note")):
        assert listing.page(wanted).emails == [email]


def test_why_it_waits_and_until_when() -> None:
    """Its time is over, and it is not ended yet; when it has ended, it waits for nothing."""
    email = note(expires_at=timezone.now() + HOUR)
    assert "expired" not in [blocker.what for blocker in why(email)]
    Email.objects.update(expires_at=timezone.now() - SECOND)
    email.refresh_from_db()
    [over] = [blocker.text for blocker in why(email) if blocker.what == "expired"]
    assert over == f"Its time is over since {email.expires_at:%Y-%m-%d %H:%M:%S} UTC: it will not be sent."
    leases.end_expired(60.0)
    email.refresh_from_db()
    assert why(email) == []


def test_the_commands_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    email, waits = expired("1"), note("2", expires_at=timezone.now() + HOUR)
    for each, word in ((email, "expired"), (waits, "expires")):
        call_command("emails", "show", each.pk)
        [line] = [line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == [word]]
        assert f"{each.expires_at:%Y-%m-%d %H:%M:%S} UTC" in line
    call_command("emails", "show", waits.pk, "--json")
    assert json.loads(capsys.readouterr().out)["expires_at"] == waits.expires_at.isoformat()  # type: ignore[union-attr]
    Email.objects.filter(pk=waits.pk).update(expires_at=Now())
    call_command("send_emails", "--dry-run")
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"would expire: {waits.pk}: note 2 to kim@customers.example: its time is over since ")
    assert last == "0 e-mails would be sent, 0 cannot be written, 1 would expire."
    call_command("send_emails")
    assert capsys.readouterr().out == "1 has expired, and is not sent.\n"
