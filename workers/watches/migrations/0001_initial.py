"""The table of watches."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Watch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "key",
                    models.TextField(help_text="its name: the URL as it is sent, unless the caller gave another one"),
                ),
                ("dedupe_key", models.UUIDField(help_text="a hash of the key", unique=True)),
                ("url", models.TextField(help_text="as given")),
                ("host", models.CharField(help_text="of the URL as it is sent", max_length=300)),
                ("request_headers", models.JSONField(help_text="by name; placeholders for secrets", null=True)),
                ("priority", models.SmallIntegerField(default=0)),
                ("revalidate", models.BooleanField(default=True)),
                ("every", models.DurationField(help_text="the period that was asked for")),
                ("jitter", models.FloatField(help_text="by which share each period is longer or shorter, at most")),
                (
                    "shortest",
                    models.DurationField(help_text="the bounds of a period that adapts; null: it does not", null=True),
                ),
                ("longest", models.DurationField(null=True)),
                ("period", models.DurationField(help_text="the period now, without jitter")),
                (
                    "tell_first",
                    models.BooleanField(default=False, help_text="whether on_change is called for the first body, too"),
                ),
                (
                    "on_change",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="the Celery task that is called with the id of each fetch whose body differs from the one before",
                        max_length=200,
                    ),
                ),
                (
                    "next_at",
                    models.DateTimeField(
                        help_text="when it is asked for next; null: an operator has paused it", null=True
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("asked_at", models.DateTimeField(help_text="when a fetch was queued last", null=True)),
                (
                    "fetch_id",
                    models.BigIntegerField(help_text="the last fetch that was queued; its row may be gone", null=True),
                ),
                ("judged_at", models.DateTimeField(help_text="when a fetch was judged last", null=True)),
                ("body_hash", models.BinaryField(help_text="SHA-256 of the last good body, decompressed", null=True)),
                (
                    "body_id",
                    models.BigIntegerField(help_text="the fetch whose body that is; its row may be gone", null=True),
                ),
                ("changed_at", models.DateTimeField(help_text="when a body that differed came last", null=True)),
                (
                    "changes",
                    models.IntegerField(
                        db_default=0, default=0, help_text="how many bodies differed from the one before"
                    ),
                ),
                (
                    "error",
                    models.TextField(
                        blank=True, db_default="", default="", help_text="why the last fetch brought no page"
                    ),
                ),
                ("failing_since", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name_plural": "watches",
                "indexes": [
                    models.Index(
                        condition=models.Q(("next_at__isnull", False)), fields=["next_at"], name="weir_watch_due"
                    ),
                    models.Index(fields=["host", "id"], name="weir_watch_of_host"),
                    models.Index(
                        condition=models.Q(("failing_since__isnull", False)), fields=["id"], name="weir_watch_failing"
                    ),
                    models.Index(
                        condition=models.Q(("next_at__isnull", True)), fields=["id"], name="weir_watch_paused"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("shortest__isnull", True), ("longest__isnull", False), _connector="XOR"),
                        name="weir_watch_bounds_together",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("failing_since__isnull", True), models.Q(("error", ""), _negated=True), _connector="XOR"
                        ),
                        name="weir_watch_failing_says_why",
                    ),
                ],
            },
        ),
    ]
