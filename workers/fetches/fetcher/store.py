"""Storing: the only way in which an attempt's outcome reaches the database, in bulk, and never lost in this process."""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import structlog
from django.db import DataError, Error, IntegrityError, connection

from postgres import statements
from ratelimit.sites import sites_of
from ratelimit.slots import unreserve
from workers import task_names
from workers.fetches import backlog
from workers.fetches.jobs import Outcome
from workers.fetches.models import FINAL, State
from workers.fetches.on_done import call_on_done
from workers.fetches.robots import answers as robots_answers
from workers.fetches.robots import files as robots_files
from workers.fetches.robots.rules import origin_of
from workers.publish import publish

log = structlog.get_logger(__name__)
_query = partial(statements.run, "workers.fetches.fetcher")

COLUMNS = (
    "fetch_id", "slot_id", "state", "attempted", "slot_used", "delay_s", "error", "status_code", "headers", "etag",
    "last_modified", "lateness_ms", "elapsed_ms", "hop_url", "content", "unchanged_from", "is_lost",
)  # fmt: skip
PERIOD = 0.1  # seconds: results wait at most this long for company
MOST_BYTES = 16 * 2**20  # of bodies in one statement
RETRY_AFTER = 1.0  # seconds, while the database is away


def store(outcomes: Sequence[Outcome]) -> set[int]:
    """Store outcomes, wake the sites that have work again, and call what waits for the end of a fetch.

    Returns the fetches that were changed: the others were cancelled, or taken back, in the meantime.
    """
    outcomes = sorted(outcomes, key=lambda outcome: outcome.fetch_id)  # sweep locks rows in this order, too
    sites = sites_of({outcome.hop_host for outcome in outcomes if outcome.hop_host})
    columns: dict[str, list[object]] = {name: [getattr(o, name) for o in outcomes] for name in COLUMNS}
    columns["hop_site"] = [sites[outcome.hop_host] if outcome.hop_host else None for outcome in outcomes]
    rows = _query("store", columns)
    _see_to_robots(rows, outcomes)
    backlog.activate(row.site_id for row in rows if row.state == State.QUEUED)
    call_on_done((row.id, row.on_done) for row in rows if row.on_done and row.state in FINAL)
    unreserve(outcome.slot_id for outcome in outcomes if not outcome.slot_used)
    return {row.id for row in rows}


def store_surely(outcomes: Sequence[Outcome]) -> None:
    """Store what the holder of fetches says, however long the database is away.

    What it refuses is stored as a failure that says so.
    """
    while True:
        try:
            stored = store(outcomes)
            _unseat(outcome.slot_id for outcome in outcomes if not outcome.slot_used and outcome.fetch_id not in stored)
        except (DataError, IntegrityError, ValueError) as error:  # ValueError: psycopg cannot encode it
            if len(outcomes) > 1:  # find the one
                half = len(outcomes) // 2
                store_surely(outcomes[:half])
                store_surely(outcomes[half:])
            else:
                log.exception("outcome_refused", fetch=outcomes[0].fetch_id)
                store_surely([_unstorable(outcomes[0], error)])
        except Error as error:
            log.warning("store_waits_for_database", outcomes=len(outcomes), error=str(error))
            connection.close()
            time.sleep(RETRY_AFTER)
            continue
        return


def _unseat(slot_ids: Iterable[int]) -> None:
    """Queue again what took the place of cancelled fetches in slots that their holder had let go of by then.

    After `store`, and in a statement of its own: it sees what was cancelled while that one waited for it.
    """
    if slots := list(slot_ids):
        backlog.activate(row.site_id for row in _query("requeue", {"slots": slots}))


def _see_to_robots(rows: Iterable[Any], outcomes: Iterable[Outcome]) -> None:
    """Note what robots.txt files said, have those asked for where redirects led, and wake who waits for a known one."""
    became = {outcome.fetch_id: outcome for outcome in outcomes}
    robots_answers.note((row.url, became[row.id]) for row in rows if row.is_robots and row.state in FINAL)
    redirected = [row for row in rows if row.state == State.QUEUED and became[row.id].hop_url and not row.is_robots]
    robots_files.ask({origin_of(row.hop_url): row.site_id for row in redirected})
    if woken := robots_files.wake({origin_of(row.hop_url): row.site_id for row in rows if row.waits_for_robots}):
        publish(task_names.DISPATCH, woken)


def _unstorable(outcome: Outcome, error: Exception) -> Outcome:
    return Outcome(
        fetch_id=outcome.fetch_id,
        slot_id=outcome.slot_id,
        state=State.FAILED,
        error=f"the database refused the result: {type(error).__name__}",
    )
