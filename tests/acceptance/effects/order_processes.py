"""What processes do that make requests once, to be killed: fetchers, and mailers that sweep, too.

`die_at` names a step at which a process kills itself, with SIGKILL.
"""

import time
from pathlib import Path

from tests.acceptance.processes import die_around, goes_on  # isort: skip  first, as it sets Django up

from django.db import close_old_connections, connection

from tests.acceptance.effects import order_api, order_kinds  # noqa: F401  registering is the purpose
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.workers.effects.performing import held, runner
from weir.workers.effects.performing.held import HeldEffect
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.effects.performing.threads import THREADS
from weir.workers.fetches import backlog, jobs
from weir.workers.fetches.dispatch import DISPATCH, batches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.results import store
from weir.workers.fetches.fetcher.results.writer import Writer
from weir.workers.fetches.fetcher.wire.connection import HttpConnection
from weir.workers.fetches.jobs import Answer
from weir.workers.fetches.maintenance import sweep
from weir.workers.fetches.once import gate
from weir.workers.schedule import TRAVEL

REST_S = 0.05
LOOK_AHEAD_S = 0.6
STORING_S = 0.3
CLOSE_S = 3.0
# Where a fetcher, or a mailer, can be killed.
OF_FETCHERS = (
    "after claim",
    "before begin",
    "after begin",
    "before write",
    "after write",
    "after answer",
    "before record",
    "after record",
    "after store",
)
AROUND_BEGIN = ("before begin", "after begin", "after write", "after answer", "after record", "before probe")
OF_MAILERS = ("before probe", "after probe", "before outcome", "after outcome")


def keep_fetching(stop: Path, die_at: str = "") -> None:
    """Dispatch and fetch, as beat and a fetcher do, until `stop` exists."""
    _begin()
    if die_at:
        _die_at(*die_at.split(" "))
    fetcher = Fetcher()
    while goes_on(stop):
        for slot_ids in batches(_reserved()):
            fetcher.run_batch(slot_ids)
        time.sleep(REST_S)
    fetcher.close(CLOSE_S)


def keep_mailing(stop: Path, die_at: str = "") -> None:
    """Ask probes, and take back what was lost, as mailers and ticks do, until `stop` exists."""
    _begin()
    if die_at:
        _die_at(*die_at.split(" "))
    while goes_on(stop):
        sweep.sweep()
        backlog.activate_due()
        runner.take_up()
        close_old_connections()
        time.sleep(REST_S)
    THREADS.close()


def _begin() -> None:
    connection.settings_dict["CONN_MAX_AGE"] = None
    jobs.STORING = STORING_S
    for module in (sweep, backlog):
        setattr(module, "publish", _nothing)  # noqa: B010  mypy knows no such name there


def _nothing(*_arguments: object, **_options: object) -> None:
    """Publish nothing: there is no broker, and each process looks by itself."""


def _reserved() -> list[list[int]]:
    rows = DISPATCH(
        added_grace=0.0,
        lookahead=LOOK_AHEAD_S,
        refill=LOOK_AHEAD_S / 2,
        most=100,
        most_slots=1_000,
        fewest=1,
        longest_run=100,
        delivery=1.0,
        travel=TRAVEL,
        apart=0.0,
        phases=1,
        confirmed_for=CONFIRMED_FOR_S,
        after=0,
        sites=None,
    )
    return [row.slot_ids for row in rows]


def _die_at(when: str, step: str) -> None:
    match step:
        case "claim":
            die_around(gate, "admit", when, lambda _, admitted: admitted and admitted[0])
        case "begin":
            die_around(HeldEffect, "begin", when)
        case "write":
            die_around(HttpConnection, "send", when)
        case "answer":
            die_around(Writer, "put", "before", lambda arguments, _: isinstance(arguments[1], Answer))
        case "record":
            die_around(held, "record", when, lambda arguments, _: arguments[0].outcome.state == "done")
        case "store":
            die_around(store, "_stored_with_effects", when)
        case "probe":
            die_around(order_api, "taken", when)
        case "outcome":
            die_around(LEDGER, "record", when)
        case _:
            raise ValueError(step)
