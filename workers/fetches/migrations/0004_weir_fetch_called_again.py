"""Which fetches have `on_done` called again, and which the first."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0003_on_done_again_at")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(
                fields=["on_done_again_at"],
                condition=models.Q(on_done_again_at__isnull=False),
                name="weir_fetch_called_again",
            ),
        ),
        AddIndexConcurrently(
            "fetch",
            models.Index(
                fields=["on_done", "on_done_again_at"],
                condition=models.Q(on_done_again_at__isnull=False),
                name="weir_fetch_task_called_again",
            ),
        ),
    ]
