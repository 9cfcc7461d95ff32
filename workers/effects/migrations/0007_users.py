"""Whom an effect concerns, and when that user was forgotten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_effects", "0006_events")]

    operations = [
        migrations.AddField(
            "effect",
            "user_key",
            models.CharField(
                max_length=255,
                blank=True,
                default="",
                db_default="",
                help_text="the key of the user whom it concerns; empty: none is named, or the user was forgotten",
            ),
        ),
        migrations.AddField(
            "effect",
            "forgotten_at",
            models.DateTimeField(
                null=True, help_text="when its user was to be forgotten, and then, once it had ended, was"
            ),
        ),
    ]
