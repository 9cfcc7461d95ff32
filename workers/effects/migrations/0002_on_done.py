"""Which task an effect calls at its end, and what is known of the call."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_effects", "0001_initial")]

    operations = [
        migrations.AddField(
            "effect",
            "on_done",
            models.CharField(
                max_length=200,
                blank=True,
                default="",
                db_default="",
                help_text="the task that is called, with the id, when it has ended",
            ),
        ),
        migrations.AddField(
            "effect",
            "on_done_called_at",
            models.DateTimeField(null=True, help_text="when it was called last; a later end is still to be told"),
        ),
        migrations.AddField(
            "effect",
            "on_done_again_at",
            models.DateTimeField(null=True, help_text="when it is called again: a worker knew no such task"),
        ),
    ]
