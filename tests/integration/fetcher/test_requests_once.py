"""Requests that are made once: what counts as an answer, what is tried again, and what an effect and its fetch say."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from tests.acceptance.fetches.recording import CUT, Request, reply, serving
from tests.integration.conftest import claimed
from tests.integration.fetching import fetch_until, fetched, reserve_all
from tests.waiting import wait_for
from weir.postgres.moments import now
from weir.ratelimit import site_settings
from weir.workers.effects import kinds, reports
from weir.workers.effects.answers import Done, NotDone
from weir.workers.effects.maintenance import forgetting
from weir.workers.effects.maintenance.purge import purge
from weir.workers.effects.management import effect_text
from weir.workers.effects.models import Act, Effect, PausedEffectKind
from weir.workers.effects.names import HANDED_OVER, HANDED_OVER_UNTIL, NAMES, EffectState
from weir.workers.effects.performing import runner
from weir.workers.effects.performing.held import HeldEffect
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.effects.resolving import resolve
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.checks import no_key_is_forgotten_meanwhile
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.enqueue.requests_once import request_once
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.results import outcomes as fetch_outcomes
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.fetcher.results.writer import SUSPECT_LOSSES, Writer, outcome_of
from weir.workers.fetches.jobs import Answer
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.management import fetch_text
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.models.fetch import AWAITS_EFFECT
from weir.workers.fetches.once import gate
from weir.workers.fetches.once.kinds import request_kind
from weir.workers.fetches.reports.batches import outlook
from weir.workers.fetches.reports.fetch_way import fetch_way
from weir.workers.fetches.reports.timeline import timeline
from weir.workers.fetches.reports.why import why
from weir.workers.fetches.retrying import retry_failed
from weir.workers.ledger import outcomes as ledger_outcomes
from weir.workers.ledger import recovering

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

KEYED, PROBED = "test.keyed_request", "test.probed_request"
request_kind(KEYED, key_lifetime=timedelta(days=1))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next attempt follow soon."""
    for module in (fetch_outcomes, ledger_outcomes):
        monkeypatch.setattr(module, "backoff_s", lambda *_given: 0.05)


class Site:
    """A site that answers in turn, the last answer again and again, and notes what it got."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers) or [reply(201, "taken")]
        self.got: list[Request] = []
        self.arrivals: list[Any] = []
        self.name = ""

    def answer(self, request: Request) -> bytes:
        self.got.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


Serving = Callable[..., Site]


@pytest.fixture
def at(settings: Settings) -> Iterator[Serving]:
    """Return a function that starts a site, at an address of its own, with these answers."""
    settings.WEIR_OBEY_ROBOTS, settings.WEIR_FETCH_ALLOW_NETS = False, ["127.1.0.0/16"]
    with ExitStack() as leaving:
        numbers = count(1)

        def started(*answers: bytes, rate: str = "50/s") -> Site:
            made = Site(*answers)
            made.name = leaving.enter_context(serving(f"127.1.249.{next(numbers)}", made.answer, made.arrivals))
            site_settings.set_rate(made.name, rate)
            return made

        yield started


def order(site: Site, key: str = "order-17", **given: object) -> Fetch:
    """Ask for an order; return its fetch."""
    effect = request_once("POST", f"http://{site.name}/orders", key=key, body=b"order", **given)  # type: ignore[arg-type]
    return Fetch.objects.get(effect=effect)


def effect_of(fetch: Fetch) -> Effect:
    return Effect.objects.get(fetches=fetch)


def test_the_first_call_for_a_key_counts(at: Serving, fetcher: Fetcher) -> None:
    """A later one changes nothing, whatever it asks for; one that is rolled back has asked for nothing."""
    site = at()
    with transaction.atomic():
        order(site)
        transaction.set_rollback(True)
    assert not Effect.objects.exists()
    effect = request_once("POST", f"http://{site.name}/orders", key="17", json={"cents": 1})
    assert request_once("PUT", "http://other.example/", key="17", form={"a": "b"}) == effect
    fetch = fetched(Fetch.objects.get(), fetcher)
    assert [(got.method, got.path, got.body) for got in site.got] == [("POST", "/orders", b'{"cents":1}')]
    effect.refresh_from_db()
    assert site.got[0].fields["idempotency-key"] == str(effect.idempotency_key) == str(fetch.idempotency_key)
    assert (effect.state, effect.result) == (EffectState.DONE, {"fetch": fetch.pk, "status": 201})
    assert (fetch.state, fetch.status_code, fetch.content) == (FetchState.DONE, 201, b"taken")


def test_a_request_of_a_user_who_is_forgotten_is_made_and_not_made_again(at: Serving, fetcher: Fetcher) -> None:
    """It waits when the user is forgotten, and ends after that."""
    site = at()
    url = f"http://{site.name}/orders"
    effect = request_once("POST", url, key="17", user=8)
    assert forgetting.forget_user(8, "ada", "Asked.") == (0, 1)
    fetched(Fetch.objects.get(), fetcher)
    assert forgetting.finish() == 1
    assert request_once("POST", url, key="17", user=8) == effect
    effect.refresh_from_db()
    assert (effect.state, effect.context, effect.result) == (EffectState.DONE, {}, None)
    assert (Fetch.objects.count(), len(site.got)) == (1, 1)


@pytest.mark.parametrize("given", [{"method": "GET"}, {"kind": "test.blind"}, {"url": "ftp://a.example/"}, {"key": ""}])
def test_what_cannot_be_made_is_refused(given: dict[str, str]) -> None:
    """Nothing is stored."""
    import tests.refunds  # noqa: F401, PLC0415  registers kinds of effects

    with pytest.raises(ValueError, match=r"\.$|:"):
        request_once(**{"method": "POST", "url": "http://a.example/", "key": "17"} | given)  # type: ignore[arg-type]
    assert not Effect.objects.exists()


def test_an_answer_is_the_result(at: Serving, fetcher: Fetcher) -> None:
    """Of whatever status: no request is made again, and no redirect is followed."""
    statuses = (200, 302, 400, 401, 403, 404, 408, 409, 421, 500, 503)
    answers = (reply(status, "said", "Location: /other", *["Retry-After: 1"] * (status == 503)) for status in statuses)
    site = at(*answers)
    fetches = [order(site, f"order-{number}") for number in range(len(statuses))]
    fetch_until(fetcher, lambda: not Fetch.objects.unfinished().exists(), "all answers")
    for fetch in fetches:
        fetch.refresh_from_db()
        assert (fetch.state, fetch.content) == (FetchState.DONE, b"said")
        effect = effect_of(fetch)
        assert (effect.state, effect.result) == (EffectState.DONE, {"fetch": fetch.pk, "status": fetch.status_code})
    # One whose `begin` came too late for its slot was made after the others.
    assert sorted(fetch.status_code or 0 for fetch in fetches) == [*statuses]
    assert len(site.got) == len(statuses)


def test_a_kept_connection_is_not_used(at: Serving, fetcher: Fetcher) -> None:
    """The site may be closing it just now: nobody could tell whether it has read the request."""
    site = at()
    for _ in range(2):
        fetched(request_fetch(f"http://{site.name}/"), fetcher)
    fetched(order(site), fetcher)
    assert [arrival.place for arrival in site.arrivals] == [1, 2, 1]


def test_half_an_answer_is_the_result(at: Serving, fetcher: Fetcher) -> None:
    """Its status is known, and the part of its body that came."""
    site = at(reply(201, "taken")[:-2] + CUT)
    fetch = fetched(order(site), fetcher)
    assert (len(site.got), fetch.state, fetch.status_code, fetch.content) == (1, FetchState.DONE, 201, b"tak")
    assert "closed the connection" in fetch.incomplete


def test_what_nobody_acted_on_is_tried_again(at: Serving, fetcher: Fetcher) -> None:
    """As often as any fetch; then both have failed, and certainly nothing happened."""
    site = at(reply(425, ""), reply(201, "taken"), reply(429, "", "Retry-After: 0"))
    assert effect_of(fetched(order(site), fetcher)).state == EffectState.DONE
    fetch = fetched(order(site, "order-18", max_attempts=1), fetcher)
    assert (fetch.state, effect_of(fetch).state, len(site.got)) == (FetchState.FAILED, EffectState.FAILED, 3)


def test_what_was_not_sent_is_tried_again(at: Serving, fetcher: Fetcher) -> None:
    """No server listens; once one does, the request is made."""
    site = at()
    site_settings.set_rate("127.1.248.1:9", "50/s")
    effect = request_once("POST", "http://127.1.248.1:9/", key="17", max_attempts=1)
    fetch = fetched(Fetch.objects.get(effect=effect), fetcher)
    assert (fetch.state, effect_of(fetch).state) == (FetchState.FAILED, EffectState.FAILED)
    assert "connection refused" in fetch.error
    Fetch.objects.filter(pk=fetch.pk).update(url=f"http://{site.name}/", hop_url=f"http://{site.name}/")
    resolve(effect.pk, Act.AGAIN, "Ada", "It listens now.")
    runner.perform_due()
    assert effect_of(fetched(fetch, fetcher)).state == EffectState.DONE
    assert len(site.got) == 1


def test_without_an_answer_it_is_unknown_and_a_person_decides(at: Serving, fetcher: Fetcher) -> None:
    """No retry of fetches makes it again; `effects resolve --again` does."""
    site = at(b"", reply(201, "taken"))
    fetch = fetched(order(site), fetcher)
    assert (fetch.state, effect_of(fetch).state) == (FetchState.FAILED, EffectState.UNKNOWN)
    assert fetch.error == "the site closed the connection without an answer; it may have happened"
    retried = retry_failed(Fetch.objects.all())
    assert (retried.queued, retried.made_once) == (0, 1)
    resolve(effect_of(fetch).pk, Act.AGAIN, "Ada", "The site has no such order.")
    runner.perform_due()
    fetch = fetched(fetch, fetcher)
    assert (fetch.state, effect_of(fetch).state, len(site.got)) == (FetchState.DONE, EffectState.DONE, 2)


def test_a_site_that_keeps_keys_is_asked_again_with_the_same(
    at: Serving, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the site may have forgotten the key."""
    site = at(b"", reply(201, "taken"))
    fetch = fetched(order(site, kind=KEYED), fetcher)
    assert (fetch.state, effect_of(fetch).state) == (FetchState.DONE, EffectState.DONE)
    assert len({got.fields["idempotency-key"] for got in site.got}) == 1
    site.answers = [b"", reply(201, "taken")]
    late = order(site, "order-18", kind=KEYED)
    monkeypatch.setattr(fetch_outcomes, "backoff_s", lambda *_given: 60.0)  # not before the key may be forgotten
    fetch_until(fetcher, lambda: effect_of(late).ask_until, "the first attempt to end without an answer")
    Effect.objects.filter(fetches=late).update(ask_until=Now())
    Fetch.objects.filter(pk=late.pk).update(not_before=Now())
    late = fetched(late, fetcher)
    assert (late.state, effect_of(late).state, len(site.got)) == (FetchState.FAILED, EffectState.UNKNOWN, 3)


@pytest.mark.parametrize(("is_there", "requests"), [(True, 1), (False, 2)])
def test_a_probe_settles_what_was_not_answered(
    at: Serving, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, is_there: bool, requests: int
) -> None:
    """The fetch waits for it meanwhile: nothing is made twice."""
    monkeypatch.setattr(kinds, "_kinds", {**kinds._kinds})  # registers for this test alone
    asked: list[str] = []

    def probe(effect: Effect) -> Done | NotDone:
        asked.append(effect.key)
        return Done("there") if is_there else NotDone("It is not there.", retry=True)

    request_kind(PROBED, probe=probe, settles_after=timedelta())
    site = at(b"", reply(201, "taken"))
    fetch = order(site, kind=PROBED)

    def goes_on() -> bool:
        runner.perform_due()
        sweep()
        return not Fetch.objects.unfinished().exists()

    fetch_until(fetcher, goes_on, "the fetch to end")
    fetch.refresh_from_db()
    assert (len(site.got), set(asked), effect_of(fetch).state) == (requests, {"order-17"}, EffectState.DONE)
    assert fetch.state == (FetchState.FAILED if is_there else FetchState.DONE)


def test_a_begin_that_is_late_writes_nothing(at: Serving, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slot has passed when it is committed, so it is given back, and so is the effect; other sites are not late."""
    site, other = at(), at()
    begin, calls = HeldEffect.begin, count(1)

    def late(held: HeldEffect) -> None:
        begin(held)
        if next(calls) == 1:
            time.sleep(1.0)  # longer than the run

    monkeypatch.setattr(HeldEffect, "begin", late)
    fetch, beside = order(site), request_fetch(f"http://{other.name}/")
    fetch = fetched(fetch, fetcher)
    assert (fetch.state, fetch.attempts, len(site.got), next(calls)) == (FetchState.DONE, 1, 1, 3)
    assert effect_of(fetch).attempts == 1
    beside = fetched(beside, fetcher)
    assert (beside.attempts, (beside.lateness_ms or 1_000) < 500) == (1, True)


def test_whatever_ends_an_effect_ends_its_fetch(at: Serving, fetcher: Fetcher) -> None:
    """And a fetch that is cancelled cancels its effect. Nothing is sent."""
    site = at()
    cancelled = order(site)
    assert cancel(cancelled.pk)
    assert effect_of(cancelled).state == EffectState.CANCELLED
    by_person = order(site, "order-18")
    resolve(effect_of(by_person).pk, Act.CANCEL, "Ada", "Nobody wants it.")
    expired = order(site, "order-19", expires_at=None)
    Effect.objects.filter(fetches=expired).update(expires_at=Now())
    runner.sweep()
    for fetch, state in ((by_person, "cancelled"), (expired, "expired")):
        assert f"is {state}" in fetched(fetch, fetcher).error
        assert effect_of(fetch).state == state
    assert not site.got


def test_a_paused_kind_waits(at: Serving, fetcher: Fetcher) -> None:
    """Until a person resumes it. Its fetch comes back later, and takes no slots meanwhile."""
    site = at()
    PausedEffectKind.objects.create(kind=KEYED, who="Ada", why="The amounts are wrong.")
    fetch = order(site, kind=KEYED)
    fetch_until(fetcher, lambda: Fetch.objects.get(pk=fetch.pk).error, "the fetch to be turned away")
    assert not site.got
    PausedEffectKind.objects.all().delete()
    Fetch.objects.filter(pk=fetch.pk).update(not_before=Now())
    assert fetched(fetch, fetcher).state == FetchState.DONE


def test_a_claim_that_knows_no_effects_gets_no_such_fetch(at: Serving) -> None:
    """A fetcher of the version before would make the request without beginning its effect."""
    fetch = order(at())
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('weir.sends_methods', 'on', true)")
        reserve = "UPDATE weir_fetches_fetch SET state = 'reserved', slot_id = 1, lease_until = now() WHERE id = %s"
        cursor.execute(reserve, [fetch.pk])
        cursor.execute("UPDATE weir_fetches_fetch SET state = 'running' WHERE id = %s", [fetch.pk])
        assert cursor.rowcount == 0


def test_what_postgresql_has_forgotten_is_not_made_again(at: Serving, fetcher: Fetcher) -> None:
    """An effect that waits for its fetch may have been begun in the lost time."""
    site = at()
    fetch = order(site)
    make_unknown = recovering.MAKE_UNKNOWN.with_names(NAMES._asdict())
    assert make_unknown(until=now(), reply="PostgreSQL has forgotten it.", after=0, batch=9)[0].unknown == 1
    assert "is unknown" in fetched(fetch, fetcher).error
    assert not site.got


def test_a_lost_fetcher_leaves_what_is_known(at: Serving, fetcher: Fetcher) -> None:
    """What it had claimed is made by another one; what it had begun may have happened, and is not made again."""
    site = at()
    claimed, begun = order(site), order(site, "order-18")
    ids = [effect_of(claimed).pk, effect_of(begun).pk]
    lost = LEDGER.claim_these(ids, timedelta(hours=1))
    LEDGER.begin(lost[ids[1]], None)
    assert fetched(claimed, fetcher).state == FetchState.DONE
    assert "is unknown: The worker" in fetched(begun, fetcher).error
    assert len(site.got) == 1
    wait_for(lambda: effect_of(begun).state == EffectState.UNKNOWN, 5, "it to be unknown")


def test_operators_see_what_it_waits_for(at: Serving, fetcher: Fetcher) -> None:
    """The effect names its fetch, and the fetch its effect."""
    fetch = order(at(b""))
    effect = effect_of(fetch)
    [fetcher_begins] = reports.why(effect)
    assert effect_text.details(effect)["next_attempt_at"] is None
    assert (fetcher_begins.what, f"fetches why {fetch.pk}" in fetcher_begins.text) == ("fetch", True)
    fetch = fetched(fetch, fetcher)
    command = f"manage.py effects show {fetch.effect_id}"
    assert why(fetch.pk).blockers[0].remedy == command
    Fetch.objects.filter(pk=fetch.pk).update(state=FetchState.QUEUED, finished_at=None, not_before=HANDED_OVER_UNTIL)
    assert ("effect", command) in [(each.kind, each.remedy) for each in why(fetch.pk).blockers]
    way = fetch_way(fetch.pk)
    [due] = [step for step in way.steps if step.kind == "due"]
    assert (due.at, due.text) == (None, "when it is known what became of its effect")
    assert fetch_text.details(way)["due_at"] is None


def test_a_key_that_is_forgotten_meanwhile_is_told(settings: Settings) -> None:
    """weir.E043: the request may still be on its way then."""

    def told() -> list[str | None]:
        return [found.id for found in no_key_is_forgotten_meanwhile() if KEYED in found.msg]

    assert told() == []
    settings.WEIR_EFFECT_UNKNOWN_AFTER = 20.0
    assert told() == ["weir.E043"]


def test_a_fetch_that_fails_before_its_turn_ends_its_effect(at: Serving, fetcher: Fetcher, settings: Settings) -> None:
    """Whatever it fails of; a person can have it done again."""
    settings.WEIR_OBEY_ROBOTS = True
    site = at(reply(200, "User-agent: *\nDisallow: /orders\n"))
    fetch = fetched(order(site), fetcher)
    effect = effect_of(fetch)
    assert (fetch.state, effect.state) == (FetchState.FAILED, EffectState.FAILED)
    assert fetch.error in effect.last_reply
    assert not [got for got in site.got if got.method == "POST"]
    settings.WEIR_OBEY_ROBOTS = False
    resolve(effect.pk, Act.AGAIN, "Ada", "We may.")
    runner.perform_due()
    assert effect_of(fetched(fetch, fetcher)).state == EffectState.DONE


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_what_may_have_happened_is_unknown_if_its_fetch_ends(
    at: Serving, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Nobody makes the request again with its key, so nobody asks what became of it."""
    for module in (fetch_outcomes, ledger_outcomes):
        monkeypatch.setattr(module, "backoff_s", lambda *_given: 60.0)
    fetch = order(at(b""), kind=KEYED)
    fetch_until(fetcher, lambda: Fetch.objects.get(pk=fetch.pk).attempts, "the first attempt to end without an answer")
    if end == "cancelled":
        assert cancel(fetch.pk)
    else:
        Fetch.objects.filter(pk=fetch.pk).update(state=FetchState.FAILED, finished_at=Now(), error="It was lost.")
    effect = effect_of(fetch)
    assert (effect.state, bool(effect.ended_at)) == (EffectState.UNKNOWN, True)
    assert "fetch" in effect.last_reply


def test_a_pause_puts_off_a_request_that_is_made_again_with_its_key(
    at: Serving, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the pause to end, and for nothing else: no probe is asked."""
    for module in (fetch_outcomes, ledger_outcomes):
        monkeypatch.setattr(module, "backoff_s", lambda *_given: 60.0)
    site = at(b"", reply(201, "taken"))
    fetch = order(site, kind=KEYED)
    fetch_until(fetcher, lambda: Fetch.objects.get(pk=fetch.pk).attempts, "the first attempt to end without an answer")
    PausedEffectKind.objects.create(kind=KEYED, who="Ada", why="It does not answer.")
    Fetch.objects.filter(pk=fetch.pk).update(not_before=Now(), error="")
    fetch_until(fetcher, lambda: Fetch.objects.get(pk=fetch.pk).error, "the fetch to be turned away")
    assert Fetch.objects.get(pk=fetch.pk).not_before < now() + timedelta(minutes=1)
    PausedEffectKind.objects.all().delete()
    Fetch.objects.filter(pk=fetch.pk).update(not_before=Now())
    assert (fetched(fetch, fetcher).state, effect_of(fetch).state) == (FetchState.DONE, EffectState.DONE)


def test_a_kind_that_no_app_registers_keeps_no_other_waiting(
    at: Serving, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fetch waits until an app does."""
    monkeypatch.setattr(kinds, "_kinds", {**kinds._kinds})
    request_kind("test.gone_request")
    site = at()
    gone, other = order(site, kind="test.gone_request"), order(site, "order-18")
    registered = kinds._kinds.pop("test.gone_request")
    other = fetched(other, fetcher)
    assert (other.state, other.error, len(site.got)) == (FetchState.DONE, "", 1)
    gone.refresh_from_db()
    assert "test.gone_request" in gone.error
    assert effect_of(gone).state == EffectState.PENDING
    kinds._kinds[registered.name] = registered
    Fetch.objects.filter(pk=gone.pk).update(not_before=Now())
    assert fetched(gone, fetcher).state == FetchState.DONE


def test_a_fetch_whose_effect_is_deleted_fails(at: Serving, fetcher: Fetcher, settings: Settings) -> None:
    """Its effect may have ended, and be deleted, while the site rests. Nothing is sent, and it does not come again."""
    site = at()
    fetch = order(site)
    resolve(effect_of(fetch).pk, Act.CANCEL, "Ada", "Nobody wants it.")
    settings.WEIR_EFFECT_RETENTION = 1.0
    Effect.objects.update(ended_at=Now() - timedelta(minutes=1))
    assert purge() == 1
    fetch = fetched(fetch, fetcher)
    assert (fetch.state, "deleted" in fetch.error, site.got) == (FetchState.FAILED, True, [])


def test_a_fetcher_that_stood_still_before_it_wrote_says_so(
    at: Serving, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its turn was lost meanwhile, and the effect unknown: then nothing has happened, and the request is made."""
    site = at()
    begin, calls, goes_on = HeldEffect.begin, count(1), threading.Event()

    def stalled(held: HeldEffect) -> None:
        begin(held)
        if next(calls) == 1:
            assert goes_on.wait(20)

    monkeypatch.setattr(HeldEffect, "begin", stalled)
    fetch = order(site)
    fetch_until(fetcher, lambda: effect_of(fetch).state == EffectState.BEGUN, "the effect to begin")
    Fetch.objects.filter(pk=fetch.pk).update(lease_until=Now())
    sweep()
    Fetch.objects.filter(pk=fetch.pk).update(not_before=Now())
    fetch_until(fetcher, lambda: effect_of(fetch).state == EffectState.UNKNOWN, "the effect to be unknown")
    goes_on.set()

    def is_made() -> bool:
        runner.perform_due()
        return effect_of(fetch).state == EffectState.DONE

    fetch_until(fetcher, is_made, "the request to be made")
    fetch.refresh_from_db()
    assert (fetch.state, len(site.got)) == (FetchState.DONE, 1)


def test_an_effect_is_not_handed_over_to_a_fetch_that_is_about_to_fail(at: Serving, fetcher: Fetcher) -> None:
    """A fetcher has turned it away, and not stored that yet: a person has the effect done again just then."""
    site = at(reply(201, "taken"))
    fetch = order(site)
    Effect.objects.filter(fetches=fetch).update(
        state=EffectState.UNKNOWN, claim_token=uuid4(), begun_at=Now(), ended_at=Now(), phase="begun", last_reply="?"
    )
    assert reserve_all()
    job = claimed(fetch.pk)
    admitted, turned_away = gate.admit([job])
    resolve(effect_of(fetch).pk, Act.AGAIN, "Ada", "The site has no such order.")
    runner.perform_due()
    assert (admitted, effect_of(fetch).state) == ([], EffectState.PENDING)
    store([outcome_of(event) for event in turned_away])
    assert Fetch.objects.get(pk=fetch.pk).state == FetchState.FAILED
    Effect.objects.filter(fetches=fetch, next_attempt_at__lt=HANDED_OVER).update(next_attempt_at=Now())
    runner.perform_due()
    assert effect_of(fetched(fetch, fetcher)).state == EffectState.DONE


def test_an_answer_counts_whose_fetch_is_taken_back(at: Serving) -> None:
    """It came, and waits to be read alone, when the lease of its fetch runs out."""
    fetch = order(at())
    assert reserve_all()
    job = claimed(fetch.pk)
    [job], _ = gate.admit([replace(job, losses=SUSPECT_LOSSES)])
    assert job.effect
    job.effect.begin()
    job.effect.beginning = Future()
    job.effect.beginning.set_result(None)
    Fetch.objects.filter(pk=fetch.pk).update(lease_until=Now())
    sweep()
    stored: list[int] = []
    writer = Writer(lambda events, _held: stored.append(events))
    writer.put(Answer(job=job, status_code=201, headers=(), body=b"", lateness_ms=0.0, elapsed_ms=1.0))
    assert writer.close(20)
    assert (stored, effect_of(fetch).state) == ([1], EffectState.DONE)


def test_what_waits_for_a_probe_has_no_time(at: Serving, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its site's next starts nor the end of its batch are in seven thousand years."""
    monkeypatch.setattr(kinds, "_kinds", {**kinds._kinds})
    request_kind(PROBED, probe=lambda _effect: None)
    site = at(b"")
    fetch = order(site, kind=PROBED, batch="orders")
    fetch_until(fetcher, lambda: Fetch.objects.filter(AWAITS_EFFECT), "the fetch to wait for the probe")
    assert fetch.site_id
    assert timeline(fetch.site_id).next_starts == []
    assert fetch.batch_id
    assert not outlook(fetch.batch_id).is_known
