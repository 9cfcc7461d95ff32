"""Contents of e-mails are deleted after WEIR_MAIL_CONTENT_RETENTION; e-mails that wait keep them; the row stays."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import InThreads, waiting_for_nobody
from tests.integration.mail.shipments import MARKS, ship
from weir.workers.mail.maintenance import purge as purging
from weir.workers.mail.maintenance.purge import purge
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.phases import EmailState, Phase

pytestmark = MARKS

DAY = timedelta(days=1)
HELD = {"claim_token": uuid4()}
FIELDS: dict[str, dict[str, Any]] = {
    EmailState.PENDING: {},
    EmailState.CLAIMED: {**HELD, "claimed_until": Now()},
    EmailState.SENDING: {**HELD, "sending_since": Now()},
    EmailState.SENT: {"sent_at": Now()},
    EmailState.FAILED: {"last_reply": "550"},
    EmailState.UNKNOWN: {**HELD, "sending_since": Now(), "phase": Phase.BEGUN, "last_reply": "lost"},
    EmailState.BOUNCED: {"sent_at": Now()},
    EmailState.CANCELLED: {},
    EmailState.SUPPRESSED: {},
    EmailState.EXPIRED: {"expires_at": Now()},
}
WAITING = (EmailState.PENDING, EmailState.CLAIMED, EmailState.SENDING)


@pytest.fixture(autouse=True)
def _retention(settings: Settings) -> None:
    settings.WEIR_MAIL_CONTENT_RETENTION = 30 * 86_400.0


def rendered(age: timedelta, state: str = EmailState.SENT) -> Email:
    """Return an e-mail in this state that was rendered this long ago."""
    email = ship()
    Email.objects.filter(pk=email.pk).update(state=state, **FIELDS[state])
    Rendering.objects.filter(pk=email.pk).update(rendered_at=Now() - age)
    return email


@pytest.mark.parametrize("state", EmailState)
def test_what_ended_loses_its_content_and_what_waits_keeps_it(state: str) -> None:
    """However old that is; the row stays as it was, with the content's hash."""
    old, young = rendered(31 * DAY, state), rendered(29 * DAY, state)
    before = list(Email.objects.order_by("pk").values())
    left = [old.pk, young.pk] if state in WAITING else [young.pk]
    assert purge() == 2 - len(left)
    assert sorted(Rendering.objects.values_list("pk", flat=True)) == left
    assert list(Email.objects.order_by("pk").values()) == before
    assert all(row["content_hash"] for row in before)


def test_batches_go_on_behind_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old e-mails that wait for later do not keep the contents of those after them from being deleted."""
    monkeypatch.setattr(purging, "BATCH", 2)
    waiting = [rendered(40 * DAY, EmailState.PENDING) for _ in range(3)]
    for _ in range(4):
        rendered(35 * DAY)
    assert purge() == 4
    assert sorted(Rendering.objects.values_list("pk", flat=True)) == [email.pk for email in waiting]


def test_it_ends_in_time_and_leaves_the_rest_to_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "BATCH", 1)
    for _ in range(3):
        rendered(31 * DAY)
    assert [purge(within_s=0) for _ in range(4)] == [1, 1, 1, 0]


def test_an_e_mail_that_somebody_holds_is_skipped(in_threads: InThreads) -> None:
    """No purge waits for a lock: an operator may be resolving it."""
    held, free = rendered(31 * DAY), rendered(31 * DAY)

    def purge_elsewhere(_number: int) -> int:
        try:
            with waiting_for_nobody():
                return purge()
        finally:
            connection.close()

    with transaction.atomic():
        Email.objects.select_for_update().get(pk=held.pk)
        assert in_threads(1, purge_elsewhere) == [1]
    assert not Rendering.objects.filter(pk=free.pk).exists()
    assert purge() == 1
