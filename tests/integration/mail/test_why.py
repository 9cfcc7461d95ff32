"""Why an e-mail waits: each thing that it waits for is said, with until when."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from tests.integration.mail.shipments import MARKS, ship, unrendered
from weir.ratelimit import site_settings
from weir.workers.mail.maintenance import operators
from weir.workers.mail.models import Email, RelayHold
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.reports.why import why
from weir.workers.mail.transports import relays
from weir.workers.orders.models import SHIPPED
from weir.workers.processes.models import Process

pytestmark = MARKS

LATER = datetime(2999, 1, 1, tzinfo=timezone.get_default_timezone())


@pytest.fixture
def mailer() -> Iterator[Process]:
    """Add a mailer whose loop turns."""
    process = Process.objects.create(kind="mailer", name="mail@here", host="here", pid=1, turned_at=Now())
    yield process
    process.delete()  # the table is not emptied


def email(**fields: Any) -> Email:
    """Queue an e-mail, with these fields."""
    queued = ship()
    Email.objects.filter(pk=queued.pk).update(**fields)
    queued.refresh_from_db()
    return queued


def blockers(of: Email) -> list[str]:
    return [it.what for it in why(of)]


@pytest.mark.usefixtures("mailer")
def test_where_nothing_is_in_its_way_that_is_said() -> None:
    assert blockers(email()) == ["turn"]


def test_without_a_mailer_nothing_is_sent() -> None:
    [only] = why(email())
    assert (only.what, "manage.py send_emails" in only.text) == ("no mailer", True)


@pytest.mark.usefixtures("mailer")
def test_a_paused_kind_is_said_with_who_and_why() -> None:
    operators.pause(SHIPPED, "Ada", "The text is wrong.")
    [only] = why(email())
    assert only.what == "paused"
    assert only.text.startswith(f"Ada has paused the kind {SHIPPED} since ")
    assert only.text.endswith("The text is wrong.")


@pytest.mark.usefixtures("mailer")
def test_a_recipient_on_the_suppression_list_is_said() -> None:
    waiting = email()
    operators.suppress(waiting.recipient, "Ada", "5.1.1 no such user")
    [only] = why(waiting)
    assert (only.what, "5.1.1 no such user" in only.text) == ("suppressed", True)


@pytest.mark.usefixtures("mailer")
def test_a_kind_without_an_app_is_said_where_it_has_to_be_rendered() -> None:
    """A rendered e-mail is sent all the same."""
    waiting = email(kind="gone")
    assert blockers(waiting) == ["turn"]
    assert blockers(Email.objects.get(pk=unrendered(waiting).pk)) == ["no kind"]


@pytest.mark.usefixtures("mailer")
def test_what_is_not_due_is_said_with_the_last_reply() -> None:
    """It says until when, and whether the e-mail was tried before."""
    [first] = why(email(next_attempt_at=LATER))
    assert (first.what, first.until, first.text) == ("not due", LATER, "It is not due yet. It is for later.")
    [tried] = why(email(next_attempt_at=LATER, attempts=3, last_reply="450 greylisted"))
    assert tried.text == "It is not due yet. Attempt 3 was in vain: 450 greylisted"


@pytest.mark.usefixtures("mailer")
def test_a_held_relay_counts_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An e-mail whose outcome is asked about waits for that relay only."""
    configured = [replace(relays.relays()[0], name=name) for name in ("first:25", "second:25")]
    monkeypatch.setattr(relays, "relays", lambda: tuple(configured))
    RelayHold.objects.create(relay="first:25", reason="It refuses us: 550 5.7.1")
    waiting, asked = email(), email(ask_until=LATER, relay="first:25")
    assert blockers(waiting) == ["turn"]
    assert blockers(asked) == ["asked", "held"]
    assert (why(asked)[0].until, "first:25 is asked" in why(asked)[0].text) == (LATER, True)
    configured.pop()
    [only] = why(waiting)
    assert only.text.startswith("The relay first:25 cannot be used since ")
    assert only.text.endswith("It refuses us: 550 5.7.1")


@pytest.mark.usefixtures("mailer")
def test_a_paused_site_counts_where_e_mails_are_paced(settings: Settings) -> None:
    settings.WEIR_MAIL_RATE = "10/s"
    site_settings.set_rate(relays.server_name(), "10/s")
    site_settings.pause(relays.server_name())
    assert blockers(email()) == ["site paused"]
    settings.WEIR_MAIL_RATE = ""
    assert blockers(email()) == ["turn"]


def test_what_a_mailer_has_in_hand_is_said_with_its_end(settings: Settings) -> None:
    """Claimed: when the lease is over. Sending: when it becomes unknown. Unknown: what to type."""
    settings.WEIR_MAIL_UNKNOWN_AFTER = 900.0
    held = {"claim_token": uuid4(), "claimed_by": "host:7"}
    [claimed] = why(email(state=EmailState.CLAIMED, claimed_until=LATER, **held))
    assert (claimed.until, "host:7" in claimed.text) == (LATER, True)
    [sending] = why(email(state=EmailState.SENDING, sending_since=LATER, **held))
    assert sending.until == LATER + timedelta(minutes=15)
    known = {"phase": Phase.BEGUN, "last_reply": "x", "sending_since": LATER}
    unknown = email(state=EmailState.UNKNOWN, **held, **known)
    assert f"emails resolve {unknown.pk} --arrived" in why(unknown)[0].text


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        (EmailState.SENT, {"sent_at": Now()}),
        (EmailState.BOUNCED, {"sent_at": Now()}),
        (EmailState.FAILED, {"last_reply": "550"}),
        (EmailState.CANCELLED, {}),
        (EmailState.SUPPRESSED, {}),
        (EmailState.EXPIRED, {"expires_at": LATER}),
    ],
)
def test_what_has_ended_waits_for_nothing(state: EmailState, fields: dict[str, Any]) -> None:
    assert why(email(state=state, **fields)) == []
