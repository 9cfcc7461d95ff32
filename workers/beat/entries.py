"""The entries of beat's schedule. PostgreSQL's clock decides what is due; steps of this host's clock do not matter."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from celery.schedules import schedstate
from django.db import Error
from django.db.models.functions import Now
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from django_celery_beat.schedulers import ModelEntry

from weir.logs.loggers import get_logger
from weir.workers.beat import declared
from weir.workers.schedule import NEW

log = get_logger(__name__)

LOOKED_AT_AGAIN_S: Final = 300.0  # when an unusable entry is looked at again, unless the schedule is read before


@dataclass(kw_only=True, slots=True)
class DatabaseClock:
    """PostgreSQL's time: the last time that it has told, plus the time that has passed since then."""

    _told: datetime | None = None
    _told_at: float = 0.0  # of time.monotonic()

    def set(self, told: datetime) -> None:
        """Record the time that PostgreSQL has just told."""
        self._told, self._told_at = told, time.monotonic()

    def now(self) -> datetime:
        """Return PostgreSQL's time, or the time of this host as long as PostgreSQL has told none."""
        if self._told is None:
            return datetime.now(UTC)
        return self._told + timedelta(seconds=time.monotonic() - self._told_at)


clock = DatabaseClock()  # this process' clock; beat sets it


class BeatEntry(ModelEntry):  # type: ignore[misc]  # django-celery-beat ships no types
    """A task of the schedule. After each message, beat saves when it was sent, before it does anything else.

    Staff and programs can write rows from which no time can be computed: an interval beyond the year 9999, the 31st of
    February. Such a row does not delay the others.
    """

    def __init__(self, model: PeriodicTask, app: Any = None) -> None:  # noqa: ANN401  as above
        """Read a row. Raises ValueError if the row cannot be used; the scheduler then skips it."""
        if model.description == NEW:
            model.enabled = True  # for this beat; it is not saved
        try:
            super().__init__(model, app=app)
        except Error:
            raise
        except Exception as error:
            _say_unusable(model.name, error)
            raise ValueError(str(error)) from error
        for option, value in declared.options_of(model.name).items():
            self.options.setdefault(option, value)
        self.options["retry"] = False  # Weir's scheduler retries, and gives up its lease until then
        if due := getattr(self, "schedule", None):  # an entry without a schedule is disabled
            due.nowfun = lambda: clock.now().astimezone(due.tz)

    def is_due(self) -> schedstate:
        """Return whether the entry is due, and after how many seconds to ask again."""
        try:
            told: schedstate = super().is_due()
        except Error:
            raise
        except Exception as error:  # noqa: BLE001  celery.beat catches it, too, but logs it each time
            _say_unusable(self.name, error)
            return schedstate(is_due=False, next=LOOKED_AT_AGAIN_S)
        return told

    @classmethod
    def to_model_schedule(cls, schedule: Any) -> tuple[Any, str]:  # noqa: ANN401  as above
        """Save a schedule as a row; return the row, and the name of the field that refers to it."""
        if every := declared.microseconds(schedule):
            interval, _ = IntervalSchedule.objects.get_or_create(every=every, period=IntervalSchedule.MICROSECONDS)
            return interval, "interval"
        found: tuple[Any, str] = super().to_model_schedule(declared.in_texts(schedule))
        return found

    def _default_now(self) -> datetime:
        return clock.now()

    def save(self) -> None:
        """Save when the entry was sent, in one round trip: far from PostgreSQL, several for each message take too long.

        A later time, which another beat has written, stays. A time in the future is replaced: the clock was set back.
        """
        sent = {"last_run_at": self.model.last_run_at, "total_run_count": self.model.total_run_count}
        later = {"last_run_at__gt": self.model.last_run_at, "last_run_at__lte": Now()}
        PeriodicTask.objects.filter(pk=self.model.pk).exclude(**later).update(**sent)

    def begins_later(self) -> bool:
        """Return whether the entry's `start_time` is in the future."""
        return self.model.start_time is not None and self.model.start_time > clock.now()

    def ran_at(self, moment: datetime) -> None:
        """Record this moment as the time of the entry's last run."""
        self.last_run_at = self.model.last_run_at = moment

    def to_send(self) -> Self:
        """Return the entry with its expiry as a time of PostgreSQL's clock; Celery would use this host's clock."""
        if not isinstance(seconds := self.options.get("expires"), int | float):
            return self
        made = type(self)(self.model)
        made.options["expires"] = clock.now() + timedelta(seconds=seconds)
        return made


def _say_unusable(name: str, error: Exception) -> None:
    log.error("beat_cannot_use", task=name, error=f"{type(error).__name__}: {error}")
