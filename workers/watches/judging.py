"""Judging: compares what the fetches of watches brought with what they brought before.

1. Lock fetches that have ended and were not judged (fetches/enqueue/watched.py).
2. Judge a batch of them, and store in their watches what they brought (sql/judge.sql). A watch that another transaction
   has locked is passed over: then the next round looks at ten times as many ends.
3. Settle the fetches. One whose body has changed names the watch's `on_change` as its `on_done` now, which is called
   after the commit. A call that is lost is repeated by sweep, as for any other fetch.

The steps are one transaction: each end is judged once, and no change is stored without its call.
"""

import time
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models import Q

from weir.postgres.statements import Statement
from weir.workers.fetches.enqueue import watched
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.on_done.calls import call_on_done
from weir.workers.watches.models import Watch

BATCH: Final = 50  # fetches, whose bodies PostgreSQL reads: of 10 MiB each, in two seconds
MOST_LOOKED_AT: Final = 50_000  # ends; if all of their watches are locked, which takes one large transaction, all wait
WITHIN_S: Final = 5.0  # seconds after which a tick leaves the rest to the next one


class JudgedFetch(NamedTuple):
    """A fetch of a watch that was judged, and the task that it calls; empty: none."""

    fetch_id: int
    task: str


JUDGE = Statement("judge", row=JudgedFetch, commits=False)


def judge_ended() -> int:
    """Do the three steps of the module's head, batch by batch; returns the number of fetches that were judged.

    Safe to run twice or together: a fetch that another transaction has taken is left to it.
    """
    judged, look, until = 0, BATCH, time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        with transaction.atomic(durable=True):
            taken = watched.take_ended(look)
            rows = JUDGE(fetches=taken.fetch_ids, most=BATCH) if taken.fetch_ids else []
            calls = watched.settle({row.fetch_id: row.task for row in rows}) if rows else []
        call_on_done(calls)
        judged += len(rows)
        if len(rows) < BATCH and taken.looked_at == look < MOST_LOOKED_AT:
            look *= 10
        elif not rows:
            break
    return judged


def take_back(fetch_id: int) -> None:
    """Let this fetch wait to be judged again, unless it was judged: its `on_done` was taken for one to be called."""
    ended = Fetch.objects.filter(pk=fetch_id).values("finished_at")
    if Watch.objects.filter(Q(judged_at=None) | Q(judged_at__lt=ended), fetch_id=fetch_id).exists():
        watched.take_back(fetch_id)
