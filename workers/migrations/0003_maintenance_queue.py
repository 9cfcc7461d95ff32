from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils import timezone

MOVED = ("weir: purge fetches", "weir: reconcile unread", "weir: purge notifications")


def move_to_maintenance(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Move what may take long to the queue of its own; entries that an operator has moved stay where they are."""
    if (
        apps.get_model("django_celery_beat", "PeriodicTask")
        .objects.filter(name__in=MOVED, queue="ticks")
        .update(queue="maintenance")
    ):
        apps.get_model(
            "django_celery_beat", "PeriodicTasks"
        ).objects.update_or_create(  # a running beat reads them anew
            ident=1, defaults={"last_update": timezone.now()}
        )


class Migration(migrations.Migration):
    dependencies = [("workers", "0002_ticks_queue"), ("django_celery_beat", "0001_initial")]

    operations = [migrations.RunPython(move_to_maintenance, migrations.RunPython.noop)]
