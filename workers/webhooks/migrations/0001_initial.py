"""The table of endpoints."""

import django.contrib.postgres.fields
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("url", models.CharField(max_length=2000)),
                ("secret", models.CharField(help_text="the name of the secret whose keys sign", max_length=100)),
                (
                    "types",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=50),
                        blank=True,
                        default=list,
                        help_text="of events; empty: all",
                        size=None,
                    ),
                ),
                (
                    "cursor",
                    models.TextField(blank=True, default="", help_text="in the event log; empty: its beginning"),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("paused_at", models.DateTimeField(help_text="null: it is not paused", null=True)),
                (
                    "pause_reason",
                    models.TextField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="what it answered; empty: an operator has paused it",
                    ),
                ),
                (
                    "resumed_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="when it was last resumed, or made",
                    ),
                ),
                (
                    "woken_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="when webhooks that waited for another attempt were last sent at once",
                    ),
                ),
                (
                    "error",
                    models.TextField(
                        blank=True, db_default="", default="", help_text="why no events are asked for now"
                    ),
                ),
                (
                    "missed_at",
                    models.DateTimeField(help_text="when events were last found to be deleted undelivered", null=True),
                ),
            ],
        ),
    ]
