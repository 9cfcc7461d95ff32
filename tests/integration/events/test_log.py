"""The event log: each end once, in an order in which a reader misses none."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.db import transaction
from django.db.models.functions import Now
from pytest_django import Settings

from tests import refunds
from tests.integration.mail.shipments import ship
from weir import EffectAct, resolve_effect
from weir.testing import captured_fetches
from weir.testing.fetches import CapturedFetches
from weir.workers.cursors import BadCursor
from weir.workers.effects import queueing
from weir.workers.effects.models import Effect
from weir.workers.events import log
from weir.workers.events.models import Event, EventLog, NewEvent, Subject
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.retrying import retry_failed
from weir.workers.mail.models import Email

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://a.example/"
DAY_S = 86_400.0
CANCEL = "UPDATE weir_fetches_fetch SET state = 'cancelled', finished_at = clock_timestamp() WHERE id = %s"


@pytest.fixture(autouse=True)
def fetches(settings: Settings) -> Iterator[CapturedFetches]:
    """Keep events, and keep fetches from being sent."""
    settings.WEIR_EVENT_RETENTION = DAY_S
    log.keep()
    with captured_fetches() as captured:
        yield captured


def read(cursor: str = "", limit: int = 100) -> tuple[list[tuple[str, int]], str]:
    """Return the types and subjects of what is in the log, and the cursor after it."""
    log.append()
    events, after = log.events_after(cursor, limit)
    return [(event.type, event.subject_id) for event in events], after


def end(*subjects: Fetch) -> None:
    """End fetches, each in a transaction of its own."""
    for fetch in subjects:
        cancel(fetch.pk)


def emailed(**values: Any) -> Email:
    """Change all e-mails; returns the last."""
    Email.objects.update(ended_at=Now(), **values)
    return Email.objects.latest("pk")


def test_each_end_of_a_fetch_is_an_event(fetches: CapturedFetches) -> None:
    """Also an end at once, and a second one after a retry. What Weir itself asks for makes none."""
    done, failed, cancelled = request_fetches([URL] * 3, reference=["a", "b", None])
    fetches.answer(done)
    fetches.fail(failed)
    end(cancelled)
    wrong = request_fetch("no URL", reference="c")
    retry_failed(Fetch.objects.filter(pk=failed.pk))
    fetches.answer(failed)
    for own in ({"is_robots": True}, {"token_client": "shop"}):
        Fetch.objects.filter(pk=request_fetch(URL).pk).update(**own)
    Fetch.objects.unfinished().update(state="failed", error="gone", finished_at=Now())
    Fetch.objects.update(on_done_called_at=Now())
    assert read()[0] == [
        ("fetch.done", done.pk),
        ("fetch.failed", failed.pk),
        ("fetch.cancelled", cancelled.pk),
        ("fetch.failed", wrong.pk),
        ("fetch.done", failed.pk),
    ]
    assert list(Event.objects.order_by("pk").values_list("reference", flat=True)) == ["a", "b", "", "c", "b"]
    assert Event.objects.latest("pk").at == Fetch.objects.get(pk=failed.pk).finished_at


def test_each_end_of_an_email_is_an_event() -> None:
    """A sent one that comes back has another event."""
    ship()
    email = emailed(state="sent", sent_at=Now())
    emailed(state="sent", last_reply="250 ok")
    emailed(state="bounced", last_reply="no such user")
    assert read()[0] == [("email.sent", email.pk), ("email.bounced", email.pk)]
    assert set(Event.objects.values_list("kind", "reference")) == {(email.kind, email.key)}


def test_each_end_of_an_effect_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    """And that it is unknown; an attempt that is made again is no end."""
    effect = queueing.once(refunds.BLIND, "4711")
    lost = {"phase": "begun", "last_reply": "lost", "claim_token": uuid4(), "begun_at": Now()}
    Effect.objects.update(attempts=1)
    Effect.objects.update(state="unknown", **lost, ended_at=Now())
    resolve_effect(effect.pk, EffectAct.AGAIN, "ada", "Nobody has it.")
    resolve_effect(effect.pk, EffectAct.CANCEL, "ada", "It is too late.")
    assert read()[0] == [("effect.unknown", effect.pk), ("effect.cancelled", effect.pk)]
    assert Event.objects.latest("pk").at == Effect.objects.get().ended_at
    call_command("effects", "ended", "--json")
    [first, _] = json.loads(capsys.readouterr().out)["events"]
    assert (first["effect"], first["kind"], first["key"]) == (effect.pk, refunds.BLIND, "4711")


def test_an_end_that_is_rolled_back_is_no_event() -> None:
    [fetch] = request_fetches([URL])
    with transaction.atomic():
        Fetch.objects.filter(pk=fetch.pk).update(state="cancelled", finished_at=Now())
        transaction.set_rollback(True)
    assert read()[0] == []


def test_a_transaction_that_stays_open_keeps_back_its_own_ends_only(other_connection: psycopg.Connection[Any]) -> None:
    """Its event comes after the cursor of a reader that has read what ended later, and was committed earlier."""
    first, second, third = request_fetches([URL] * 3)
    other_connection.execute(CANCEL, [first.pk])
    end(second)
    found, cursor = read()
    assert found == [("fetch.cancelled", second.pk)]
    assert NewEvent.objects.count() == 0
    other_connection.commit()
    end(third)
    assert read(cursor)[0] == [("fetch.cancelled", first.pk), ("fetch.cancelled", third.pk)]


def test_one_at_a_time_gives_ids(other_connection: psycopg.Connection[Any]) -> None:
    """Otherwise higher ids might be seen before lower ones. Nobody waits."""
    end(*request_fetches([URL]))
    other_connection.execute("SELECT id FROM weir_events_eventlog FOR NO KEY UPDATE")
    assert (log.append(), read()[0]) == (0, [])
    other_connection.rollback()
    assert log.append() == 1


def test_a_reading_looks_at_so_many_events_whatever_their_types(fetches: CapturedFetches) -> None:
    """So a reader of few types goes on where it has looked."""
    first, second = request_fetches([URL] * 2)
    end(first)
    fetches.fail(second)
    log.append()
    events, cursor = log.events_after("", 1, types=["fetch.failed"])
    assert events == []
    events, after = log.events_after(cursor, 1, types=["fetch.failed"])
    assert [event.subject_id for event in events] == [second.pk]
    assert log.events_after(after, 1) == ([], after)


def test_newest_begins_after_all_there_is() -> None:
    first, second = request_fetches([URL] * 2)
    end(first)
    log.append()
    cursor = log.newest()
    end(second)
    assert read(cursor)[0] == [("fetch.cancelled", second.pk)]


def test_a_reader_whose_events_were_purged_is_told() -> None:
    """One that has read them, or reads other subjects, goes on."""
    first, second = request_fetches([URL] * 2)
    end(first)
    before = read(limit=1)[1]
    end(second)
    after = read(before)[1]
    Event.objects.update(at=Now() - timedelta(seconds=2 * DAY_S))
    log.keep()
    assert (Event.objects.count(), read(), read(after)) == (0, ([], after), ([], after))
    with pytest.raises(log.EventsGone, match="look at each fetch, e-mail or effect"):
        read(before)
    assert log.read(before, 1, Subject.EMAIL)[0] == []


def test_nothing_is_kept_unless_the_setting_says_so(settings: Settings) -> None:
    """A cursor from before is not taken for one of now: in between, ends were not noted."""
    first, second, third = request_fetches([URL] * 3)
    end(first)
    cursor = read()[1]
    settings.WEIR_EVENT_RETENTION = 0.0
    log.keep()
    end(second)
    assert (EventLog.objects.exists(), Event.objects.exists(), NewEvent.objects.exists()) == (False,) * 3
    with pytest.raises(log.NoEvents, match="set WEIR_EVENT_RETENTION"):
        read(cursor)
    settings.WEIR_EVENT_RETENTION = DAY_S
    with pytest.raises(log.NoEvents, match="see that all processes have WEIR_EVENT_RETENTION"):
        log.newest()
    log.keep()
    end(third)
    with pytest.raises(log.EventsGone):
        read(cursor)
    assert read()[0] == [("fetch.cancelled", third.pk)]


@pytest.mark.parametrize("cursor", ["x", "W10", "WyJhIiwtMV0", "W251bGwsMV0"])
def test_a_text_that_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        read(cursor)
