"""The schedule's rows in PostgreSQL, from which beat reads it: `migrate` and `sync_schedule` write them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from weir.postgres import weir_apps
from weir.workers.beat import declared
from weir.workers.models import Heartbeat
from weir.workers.schedule import ScheduleEntry, entries

OWNED: Final = "weir: "  # how the names of Weir's entries begin
_LOCK: Final = 0x53636865  # "Sche" in ASCII: held by the process that synchronises, because entries have no unique key


class Synchronised(NamedTuple):
    """How many entries there are, and what was done for that."""

    entries: int
    created: int
    removed: int


def synchronise(wanted: Sequence[ScheduleEntry]) -> Synchronised:
    """Create those of the wanted entries that are missing, and remove all others of Weir's.

    Operators' changes stay: the interval, the queue, and whether an entry is enabled. An entry whose task was renamed
    is made anew.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        tasks = {entry.name: entry.task for entry in wanted}
        owned = PeriodicTask.objects.filter(name__startswith=OWNED)
        stale = [row for row in owned if tasks.get(row.name) != row.task]
        for row in stale:
            row.delete()
        created = sum(map(_ensure, wanted))
    return Synchronised(entries=len(wanted), created=created, removed=len(stale))


@contextmanager
def as_declared(app: Any) -> Iterator[None]:  # noqa: ANN401  Celery's own have no types
    """Delete the rows of entries that `beat_schedule` no longer has; the block writes those that it has."""
    if app not in declared.of_celerys:
        yield
        return
    names = list(app.conf.beat_schedule)
    for row in PeriodicTask.objects.filter(description=declared.MARK).exclude(name__in=names):
        row.delete()
    yield
    PeriodicTask.objects.filter(name__in=names, description="").update(description=declared.MARK)


def after_migrate(*, using: str, plan: object = None, **_signal: Any) -> None:
    """Write the schedule of the installed apps, or an empty one if `migrate` has taken Weir's tables away.

    This happens only if beat's tables are there, and not after `flush`, which has no plan.
    """
    tables = {model._meta.db_table for model in (PeriodicTask, IntervalSchedule)}  # noqa: SLF001  documented
    if plan is None or using != DEFAULT_DB_ALIAS or any(app.has_own_release for app in weir_apps.installed()):
        return
    present = set(connections[using].introspection.table_names())
    if tables <= present:
        synchronise(entries() if Heartbeat._meta.db_table in present else ())  # noqa: SLF001  as above


def _ensure(entry: ScheduleEntry) -> bool:
    interval, _ = IntervalSchedule.objects.get_or_create(
        every=int(entry.every.total_seconds()), period=IntervalSchedule.SECONDS
    )
    _, created = PeriodicTask.objects.get_or_create(
        name=entry.name,
        defaults={
            "task": entry.task,
            "interval": interval,
            "queue": entry.queue,
            "args": json.dumps(entry.arguments),
        },
    )
    return bool(created)
