"""on_done of an effect: when its end is committed, the Celery task that it names is published, at least once.

1. Whoever ends an effect (an attempt, expiry, a person) publishes the task after the commit (`call_on_done`), and
   records that the broker accepted it.
2. A call that is not recorded in time was lost. It is repeated (`call_overdue`) by the sweep of effects.
3. A worker that does not know the task records that (`record`). Five minutes later the call is made again (`renew`).

A call belongs to one end: an effect that is done again, and ends again, calls its task again. `unknown` is no end.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from django.db.models import F
from django.db.models.functions import Greatest, Now

from weir.postgres.statements import Statement
from weir.workers.effects.models import Effect
from weir.workers.effects.names import ENDS
from weir.workers.on_done import unknown
from weir.workers.publish import call
from weir.workers.tracing import correlation

HEADER: Final = "weir_effect"  # of the message that calls the task: the id of the effect
OVERDUE: Final = timedelta(seconds=30)  # a call that has not been recorded by then was lost; also in calls_due.sql
AT_ONCE: Final = 100

CALLS_DUE = Statement("calls_due", returns=bool, commits=False, prepare=True)  # whether call_overdue has work


def call_on_done(ids: Iterable[int]) -> None:
    """Publish the tasks of those of these effects that have ended, and have not called theirs since.

    Stops at the first call that the broker does not accept: `call_overdue` repeats the rest.
    """
    _call_all(Effect.objects.owing_calls().filter(pk__in=list(ids)).order_by("pk"))


def call_overdue() -> None:
    """Repeat the calls that were not recorded in time, and make those that a worker kept and that are due again.

    A few at a time: the call of a task that no worker knows makes a worker log an error. Safe to run twice or together.
    """
    due = Effect.objects.filter(on_done_again_at__lte=Now())
    if chosen := list(due.order_by("on_done_again_at").values_list("pk", flat=True)[:AT_ONCE]):
        due.filter(pk__in=chosen).update(on_done_called_at=None, on_done_again_at=None)
    overdue = Effect.objects.owing_calls().filter(ended_at__lt=Now() - OVERDUE)
    _call_all(overdue.order_by("ended_at")[:AT_ONCE])


def record(effect: int, task: str) -> None:
    """Record that a worker does not know the task that this effect called at its end.

    An effect that is being done again calls it at its next end.
    """
    Effect.objects.filter(pk=effect, on_done=task, state__in=ENDS).update(on_done_again_at=Now() + unknown.AGAIN_AFTER)


def _call_all(effects: Iterable[Effect]) -> None:
    for effect in effects:
        with correlation.bound(effect.correlation_id):
            if not call(effect.on_done, effect.pk, headers={HEADER: effect.pk}):
                return
        # If it has begun anew, and ended again meanwhile, that end needs a call of its own.
        Effect.objects.filter(pk=effect.pk, ended_at=effect.ended_at).update(
            on_done_called_at=Greatest(Now(), F("ended_at"))
        )
