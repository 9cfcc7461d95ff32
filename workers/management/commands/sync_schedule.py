import json
from typing import Any

from django.db import connection, transaction
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from weir.workers.cli.actions import ExactCommand
from weir.workers.schedule import SCHEDULE, Entry

OWNED = "weir: "
LOCK = 0x53636865  # "Sche" in ASCII: the advisory lock of the process that synchronises, as entries have no unique key


class Command(ExactCommand):
    help = "Create missing entries of the beat schedule, and remove stale ones. Changes by operators are kept."

    def handle(self, *_args: Any, **_options: Any) -> None:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            created = [entry.name for entry in SCHEDULE if self._ensure(entry)]
            stale = PeriodicTask.objects.filter(name__startswith=OWNED).exclude(name__in=[e.name for e in SCHEDULE])
            removed = list(stale.values_list("name", flat=True))
            for task in stale:
                task.delete()
        self.stdout.write(f"Schedule: {len(SCHEDULE)} entries, {len(created)} created, {len(removed)} removed.")

    def _ensure(self, entry: Entry) -> bool:
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
