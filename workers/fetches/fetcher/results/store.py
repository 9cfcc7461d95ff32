"""Storing: the only way in which outcomes reach the database, in bulk. The writer and sweep call it.

1. The sites of redirects' targets are found or created (ratelimit/sites.py).
2. What concerns access tokens is stored (access_tokens/tokens.py).
3. One statement stores all outcomes, each only if the fetch still has the slot (sql/store.sql). The outcomes of the
   effects of requests that are made once are stored with them.
4. The consequences follow after the commit: robots.txt files are stored (robots/answers.py), the backlog flags of
   sites with fetches that are queued again are activated (backlog.py), `on_done` is called (on_done/calls.py), and slow
   sites forget slots that were given back (`unreserve`).

A fetch passes this stage once for each attempt: a redirect, a retry or a missed slot queues it again.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from django.db import DataError, Error, IntegrityError, connection, transaction

from weir.logs.loggers import get_logger
from weir.postgres import own_commits, sessions
from weir.postgres.statements import Statement, execute
from weir.ratelimit.sites import SitesLocked, known_sites, sites_of
from weir.ratelimit.slots import note_answers, unreserve
from weir.workers.effects.performing import held
from weir.workers.effects.performing.held import SettledEffect
from weir.workers.fetches import backlog
from weir.workers.fetches.access_tokens import tokens as access_tokens
from weir.workers.fetches.bodies.keeping import KEEPING_S
from weir.workers.fetches.fetcher.parts import take_turn
from weir.workers.fetches.fetcher.results.bodies import columns_of_bodies
from weir.workers.fetches.jobs import STORING, FetchOutcome
from weir.workers.fetches.models import FINAL, FetchState
from weir.workers.fetches.on_done.calls import Ended, call_on_done
from weir.workers.fetches.robots import answers as robots_answers
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.robots.rules import origin_of
from weir.workers.tracing import correlation

log = get_logger(__name__)

COLUMNS = (
    "fetch_id", "slot_id", "state", "attempted", "slot_used", "delay_s", "error", "status_code", "headers", "etag",
    "last_modified", "lateness_ms", "elapsed_ms", "hop_url", "unchanged_from", "incomplete",
    "keeps_place", "is_lost", "has_left_origin", "has_become_get",
)  # fmt: skip
DATABASE_RETRY_S = 1.0  # seconds between two attempts while the database is away
SITES_PATIENCE_S = 0.5  # seconds that a store waits for other transactions if a redirect leads to a new site
SITES_RETRY_S = 5.0  # seconds after which a fetch whose redirect led to such a site is requested again


class StoredFetch(NamedTuple):
    """A fetch that was changed, in its new state; `hop_url` is where it is, or was, requested."""

    id: int
    url: str
    hop_url: str
    state: str
    site_id: int
    on_done: str
    is_robots: bool
    correlation_id: str


REQUEUE = Statement("requeue", returns=int, commits=True)
STORE = Statement("store", row=StoredFetch, commits=True)
TAKE_IN_HAND = Statement("take_in_hand", commits=True)


def store(outcomes: Sequence[FetchOutcome]) -> set[int]:
    """Store outcomes and do what follows from them; returns the ids of the fetches that were changed.

    The other fetches were cancelled, or taken back by sweep, in the meantime.
    """
    rows, stored = _stored(outcomes)
    _follow(rows, stored)
    return {row.id for row in rows}


def _stored(outcomes: Sequence[FetchOutcome]) -> tuple[list[StoredFetch], list[FetchOutcome]]:
    """Store outcomes; returns the fetches that were changed, and the outcomes as they were stored."""
    access_tokens.refuse(token for outcome in outcomes for token in outcome.refused_tokens)
    access_tokens.note([outcome.token for outcome in outcomes if outcome.token])
    outcomes, sites = _with_sites(outcomes)
    outcomes.sort(key=lambda outcome: outcome.fetch_id)  # the order in which all stores lock rows
    columns: dict[str, list[object]] = {name: [getattr(o, name) for o in outcomes] for name in COLUMNS}
    columns["hop_site"] = [sites[outcome.hop_host] if outcome.hop_host else None for outcome in outcomes]
    parameters = {**columns, **columns_of_bodies(outcomes), "keeping": KEEPING_S}
    if effects := [(outcome.fetch_id, outcome.effect) for outcome in outcomes if outcome.effect]:
        return _stored_with_effects(parameters, effects), outcomes
    return STORE(**parameters), outcomes


def _stored_with_effects(
    parameters: dict[str, object], effects: Sequence[tuple[int, SettledEffect]]
) -> list[StoredFetch]:
    """Store the outcomes of the fetches, and of their effects, in one transaction: no kill comes between them."""
    own_commits.refuse_transaction("store")
    with transaction.atomic():
        rows = execute(STORE, parameters)
        outcomes_of = Counter(cast("list[int]", parameters["fetch_id"]))
        changed = {row.id for row in rows if outcomes_of[row.id] == 1}  # of two, one is of a former turn
        for fetch_id, settled in sorted(effects, key=lambda each: each[1].effect.pk):
            held.record(settled, has_turn=fetch_id in changed)
    return rows


def _follow(rows: Sequence[StoredFetch], outcomes: Sequence[FetchOutcome]) -> None:
    """Do what follows from outcomes that are committed."""
    _update_robots(rows, outcomes)
    _update_tokens(outcomes)
    backlog.activate(row.site_id for row in rows if row.state == FetchState.QUEUED)
    _log_failed(rows, outcomes)
    call_on_done(Ended(row.id, row.on_done, row.correlation_id) for row in rows if row.on_done and row.state in FINAL)
    unreserve(outcome.slot_id for outcome in outcomes if not outcome.slot_used)
    note_answers(outcome.slot_id for outcome in outcomes if outcome.ends_silence)


def _update_tokens(outcomes: Iterable[FetchOutcome]) -> None:
    """Wake the fetches that wait for tokens that have come, or that had come before these began to wait."""
    awaited = {outcome.awaited_token: outcome.error for outcome in outcomes if outcome.awaited_token}
    come = {outcome.token.key: outcome.token.client for outcome in outcomes if outcome.token}
    access_tokens.wake(awaited | {key: access_tokens.waits_for(client) for key, client in come.items()})


def _with_sites(outcomes: Sequence[FetchOutcome]) -> tuple[list[FetchOutcome], dict[str, int]]:
    """Return the outcomes, and the sites of redirects' targets by their hosts.

    If another transaction is in the way of a new site, the store does not wait for its end, because the other results
    would wait, too. The redirected fetches are requested again later, at the URL where they were.
    """
    hosts = {outcome.hop_host for outcome in outcomes if outcome.hop_host}
    try:
        return list(outcomes), sites_of(hosts, patience_s=SITES_PATIENCE_S)
    except SitesLocked:
        log.warning("redirects_wait_for_sites", hosts=len(hosts))
    known = {host: site.id for host, site in known_sites(hosts).items()}
    return [
        replace(
            outcome, hop_url=None, hop_host=None, delay_s=SITES_RETRY_S, error=f"waits for a site of {outcome.hop_host}"
        )
        if outcome.hop_host and outcome.hop_host not in known
        else outcome
        for outcome in outcomes
    ], known


def store_surely(outcomes: Sequence[FetchOutcome]) -> None:
    """Store the outcomes of fetches that this process holds, however long the database is away.

    An outcome that the database refuses is replaced by a failure that says so. Successors of cancelled fetches, in
    slots that are given back, are queued again.
    """
    while True:
        take_turn()
        try:
            rows, stored = _stored(outcomes)
        except (DataError, IntegrityError, ValueError) as error:  # ValueError: psycopg cannot encode it
            if len(outcomes) > 1:  # find the one that is refused
                half = len(outcomes) // 2
                store_surely(outcomes[:half])
                store_surely(outcomes[half:])
            else:
                log.exception("outcome_refused", **outcomes[0].named)
                store_surely([_unstorable(outcomes[0], error)])
            return
        except Error as error:
            _wait_for_database(error, len(outcomes))
        else:
            break
    try:
        _follow(rows, stored)
        changed = {row.id for row in rows}
        _requeue_successors(o.slot_id for o in outcomes if not o.slot_used and o.fetch_id not in changed)
    except (Error, ValueError):  # the outcomes are committed; sweep does the rest
        log.exception("what_follows_left_to_sweep", outcomes=len(outcomes))
        connection.close()


def take_in_hand(*, fetch_id: int, slot_id: int) -> bool:
    """Record that this process has this fetch in hand, and no other one, however long the database is away.

    This is committed on return. Returns False if the process no longer holds the fetch, because it was cancelled, or
    sweep took it back.
    """
    parameters = {"fetch": fetch_id, "slot": slot_id, "storing": STORING}
    while True:
        take_turn()
        try:
            return bool(TAKE_IN_HAND(**parameters))
        except Error as error:
            _wait_for_database(error, 1)


def _wait_for_database(error: Error, outcomes: int) -> None:
    log.warning("store_waits_for_database", outcomes=outcomes, error=str(error))
    sessions.leave(connection)
    time.sleep(DATABASE_RETRY_S)


def _requeue_successors(slot_ids: Iterable[int]) -> None:
    """Queue the successors in these slots again: this process gave the slots back before it heard of the successors.

    This is a statement after `store`, so that it also sees fetches that were cancelled while `store` waited for a lock.
    """
    if slots := list(slot_ids):
        backlog.activate(REQUEUE(slots=slots))


def _update_robots(rows: Sequence[StoredFetch], outcomes: Iterable[FetchOutcome]) -> None:
    """Store robots.txt files, ask for those of redirects' targets, and wake fetches whose robots.txt is known now."""
    became = {outcome.fetch_id: outcome for outcome in outcomes}
    robots_answers.note((row.url, became[row.id]) for row in rows if row.is_robots and row.state in FINAL)
    redirected = [
        row for row in rows if row.state == FetchState.QUEUED and became[row.id].hop_url and not row.is_robots
    ]
    robots_files.ask(
        {origin_of(row.hop_url): row.site_id for row in redirected},
        correlation_ids={origin_of(row.hop_url): row.correlation_id for row in redirected},
    )
    waiting = [row for row in rows if became[row.id].waits_for_robots]
    if woken := robots_files.wake({origin_of(row.hop_url): row.site_id for row in waiting}):
        backlog.wake(woken)


def _log_failed(rows: Iterable[StoredFetch], outcomes: Iterable[FetchOutcome]) -> None:
    """Log the fetches that failed for good, without URLs and redirect targets, which may hold secrets."""
    became = {outcome.fetch_id: outcome for outcome in outcomes}
    for row in rows:
        if row.state == FetchState.FAILED:
            with correlation.bound(row.correlation_id):
                outcome = became[row.id]
                log.info("fetch_failed", fetch=row.id, site=row.site_id, error=outcome.log_error or outcome.error)


def _unstorable(outcome: FetchOutcome, error: Exception) -> FetchOutcome:
    return FetchOutcome(
        fetch_id=outcome.fetch_id,
        slot_id=outcome.slot_id,
        state=FetchState.FAILED,
        error=f"the database refused the result: {type(error).__name__}",
        attempted=outcome.attempted,
        slot_used=outcome.slot_used,
        correlation_id=outcome.correlation_id,
        effect=outcome.effect,
    )
