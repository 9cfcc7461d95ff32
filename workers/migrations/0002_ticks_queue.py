from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils import timezone

MOVED = (
    "weir: dispatch fetches",
    "weir: sweep fetches",
    "weir: publish postponed tasks",
    "weir: purge fetches",
    "weir: flush unread",
    "weir: reconcile unread",
    "weir: purge notifications",
)


def move_to_ticks(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Move entries of the schedule to the queue of their own; those that an operator has moved stay where they are."""
    if (
        apps.get_model("django_celery_beat", "PeriodicTask")
        .objects.filter(name__in=MOVED, queue="default")
        .update(queue="ticks")
    ):
        apps.get_model(
            "django_celery_beat", "PeriodicTasks"
        ).objects.update_or_create(  # a running beat reads them anew
            ident=1, defaults={"last_update": timezone.now()}
        )


class Migration(migrations.Migration):
    dependencies = [("workers", "0001_initial"), ("django_celery_beat", "0001_initial")]

    operations = [migrations.RunPython(move_to_ticks, migrations.RunPython.noop)]
