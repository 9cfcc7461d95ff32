"""When `on_done` is called again, because a worker did not know its task."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0002_held_runs")]

    operations = [
        migrations.AddField(
            "fetch",
            "on_done_again_at",
            models.DateTimeField(null=True, help_text="when it is called again: a worker knew no such task"),
        )
    ]
