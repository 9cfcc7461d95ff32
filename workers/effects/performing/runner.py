"""What a task does about effects: it settles what dead processes left, and gives threads what is due."""

import time
from uuid import uuid4

from weir.postgres import own_commits
from weir.postgres.timeline import gate
from weir.workers.effects import kinds
from weir.workers.effects.on_done import call_overdue
from weir.workers.effects.performing.attempts import perform
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.effects.performing.threads import THREADS
from weir.workers.ledger.outcomes import Outcome

EXPIRING_S = 1.0  # how long expired effects are ended before others are begun: very many may have expired


def take_up() -> int:
    """Leave what is due to threads of this process; return how many effects. May be killed anywhere."""
    sweep()
    return THREADS.take_up()


def sweep() -> None:
    """End what has expired, and what dead processes held, and call what is overdue; may be killed anywhere."""
    own_commits.refuse_transaction("effects")
    gate.require()  # before leases are judged by PostgreSQL's clock
    LEDGER.end_expired(EXPIRING_S)
    LEDGER.take_back_abandoned()
    LEDGER.end_silent()
    call_overdue()


def perform_due(limit: int | None = None, *, at_most_s: float | None = None) -> list[tuple[int, Outcome]]:
    """Perform what is due in this thread, one after the other; return their ids and outcomes.

    For tests, and for a project without workers. After `limit` effects, or `at_most_s` seconds, the rest is left.
    """
    sweep()
    done: list[tuple[int, Outcome]] = []
    give_up_at = None if at_most_s is None else time.monotonic() + at_most_s
    of = {kind.name: True for kind in kinds.registered()}
    while (limit is None or len(done) < limit) and (give_up_at is None or time.monotonic() < give_up_at):
        claimed = LEDGER.claim(1, uuid4(), of) if of else []
        if not claimed:
            break
        if outcome := perform(claimed[0]):
            done.append((claimed[0].pk, outcome))
    return done
