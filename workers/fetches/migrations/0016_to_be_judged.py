"""An index of the ends of watches' fetches that wait to be judged."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0015_due_since_for_tokens")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(
                fields=["finished_at"],
                condition=models.Q(
                    ("finished_at__isnull", False),
                    ("on_done", "weir.watches.keep_watch"),
                    ("on_done_called_at__isnull", True),
                ),
                name="weir_fetch_to_be_judged",
            ),
        ),
    ]
