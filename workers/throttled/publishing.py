"""Publishing: postponed tasks get a message again when their turn at their site comes.

1. Tasks whose message or whose worker was lost wait again.
2. One statement marks the next tasks of every site that can start soon, and commits (sql/publish.sql).
3. Their messages are sent. What the broker does not take waits again; should this process die in between, the lease
   of those tasks runs out.

Tasks are published LOOKAHEAD seconds before they could start, not as soon as `max_wait` would allow: a task that waits
in a worker keeps a process from other work.

In a site where fetches wait, too, dispatch books whenever a tick finds it booked for less than REFILL. Who looks less
far would never find room there; who looks farther, by a tick, is always first and would leave none. So each tick draws:
it looks farther than dispatch, or so much less far that dispatch was there before. Both go on, at any rate and however
the ticks lie; which of them gets how much is not laid down.
"""

from collections import Counter
from functools import partial
from itertools import takewhile
from random import random

import structlog
from django.conf import settings
from django.db.models import F
from kombu.utils import json

from postgres import statements
from workers import task_names
from workers.fetches.dispatch import REFILL, TRAVEL
from workers.publish import publish_signature
from workers.schedule import tick_of
from workers.throttled.models import PostponedTask
from workers.throttled.postponing import HEADER

_query = partial(statements.run, "workers.throttled")
log = structlog.get_logger(__name__)

TICK = tick_of(task_names.PUBLISH_POSTPONED)  # seconds; dispatch has the same
# Seconds: where a site is about to be booked by dispatch, a tick before has published, and the task has reserved.
LOOKAHEAD = REFILL + TICK + TRAVEL
FETCHES_FIRST = 0.5  # the share of the ticks that leave sites where fetches wait to dispatch
# Seconds after which a message counts as lost. One that was only late does nothing when its task has started since.
DELIVERY = 30.0
PAUSE, LONGEST_PAUSE = 60.0, 3600.0  # seconds before a task is published for the third time, and between any two
MOST_OF_A_SITE = 200
BATCH = 500


def publish_due() -> int:
    """Publish the postponed tasks whose turn has come; returns how many messages were sent.

    Safe to run anywhere, any number of times at once: sites in which somebody else is publishing are left to him.
    """
    _take_back_lost()
    behind_dispatch = max(0.0, min(REFILL, settings.WEIR_LOOKAHEAD) - TICK)
    parameters = {
        "lookahead": LOOKAHEAD,
        "beside_fetches": behind_dispatch if random() < FETCHES_FIRST else LOOKAHEAD,  # noqa: S311  a lot
        "delivery": DELIVERY,
        "most": MOST_OF_A_SITE,
        "batch": BATCH,
    }
    sent, more = 0, True
    while more:
        rows = _query("publish", parameters)
        taken = list(takewhile(lambda row: _send(row.id, row.signature), rows))
        _wait_again([row.id for row in rows[len(taken) :]])
        # A worker throws an expired message away, and says so where Celery expects it: no slot, and nothing to repeat.
        PostponedTask.objects.filter(pk__in=[row.id for row in taken if row.is_expired]).delete()
        sent += len(taken)
        more = len(taken) == BATCH
    return sent


def _take_back_lost() -> None:
    more = True
    while more:
        rows = _query("take_back", {"batch": BATCH, "pause": PAUSE, "longest": LONGEST_PAUSE})
        if rows:
            log.warning(
                "postponed_tasks_published_again",
                tasks=dict(Counter(row.task for row in rows)),
                workers_lost=sum(row.was_held for row in rows),
                most_publications=max(row.publications for row in rows),
            )
        more = len(rows) == BATCH


def _send(row: int, signature_text: str) -> bool:
    """Send a task's message; False where the broker cannot be reached. One that cannot be sent at all is logged."""
    try:
        signature = json.loads(signature_text)
        options = signature["options"]
        options["headers"] = {**(options["headers"] or {}), HEADER: [row, options["retries"]]}
        # As in a retry, where Celery does the same; the task that publishes it is not its parent.
        options["parent_id"] = options.get("parent_id") or options["task_id"]
        return publish_signature(signature)
    except Exception:
        log.exception("postponed_task_not_published", row=row)
        return True  # others go on; its lease ends, and it is tried again


def _wait_again(rows: list[int]) -> None:
    """Let tasks wait again that were marked, but not sent; a worker that got one all the same has done so itself."""
    if rows:
        PostponedTask.objects.filter(pk__in=rows, held_by=None, publications__gt=0).update(
            published_at=None, lease_until=None, publications=F("publications") - 1
        )
