"""The rows of the schedule in PostgreSQL, which beat reads; `migrate` and `sync_schedule` write Weir's rows."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from weir.postgres import weir_apps
from weir.workers.beat import declared
from weir.workers.models import Heartbeat
from weir.workers.schedule import NEW, ScheduleEntry, entries

OWNED: Final = "weir: "  # how the names of Weir's entries begin
_LOCK: Final = 0x53636865  # "Sche" in ASCII: serialises `synchronise`, because the intervals have no unique key


class Synchronised(NamedTuple):
    """The number of wanted entries, and the numbers of created and of removed rows."""

    entries: int
    created: int
    removed: int


def synchronise(wanted: Sequence[ScheduleEntry]) -> Synchronised:
    """Create the wanted entries that are missing, and remove all other entries of Weir's.

    Operators' changes to wanted entries stay: the interval, the queue, and whether an entry is enabled. An entry whose
    task was renamed is created anew.
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
        no_longer_new = [entry.name for entry in wanted if not entry.is_new]
        for row in owned.filter(name__in=no_longer_new, description=NEW):
            row.enabled, row.description = True, ""
            row.save()
    return Synchronised(entries=len(wanted), created=created, removed=len(stale))


@contextmanager
def as_declared(app: Any) -> Iterator[None]:  # noqa: ANN401  Celery's own have no types
    """Delete the rows of entries that `beat_schedule` no longer has, and mark the rows that the block writes."""
    if app not in declared.of_celerys:
        yield
        return
    names = list(app.conf.beat_schedule)
    for row in PeriodicTask.objects.filter(description=declared.MARK).exclude(name__in=names):
        row.delete()
    yield
    PeriodicTask.objects.filter(name__in=names, description="").update(description=declared.MARK)


def after_migrate(*, using: str, plan: object = None, **_signal: Any) -> None:
    """Write the schedule of the installed apps, or remove Weir's entries if `migrate` has removed Weir's tables.

    Does nothing without beat's tables, after `flush` (which has no plan), for another database than Weir's, and if an
    app has a `release` line of its own.
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
            "enabled": not entry.is_new,
            "description": NEW if entry.is_new else "",
        },
    )
    return bool(created)
