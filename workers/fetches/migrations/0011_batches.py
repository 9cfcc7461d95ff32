"""Batches of fetches, and the changes of their numbers."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0010_no_second_queue")]

    operations = [
        migrations.CreateModel(
            "Batch",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(help_text="the caller's", max_length=200, unique=True)),
                (
                    "on_done",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="the Celery task that is called with the name when nothing is left",
                        max_length=200,
                    ),
                ),
                (
                    "is_open",
                    models.BooleanField(
                        db_default=False, default=False, help_text="the caller has said that more is to come"
                    ),
                ),
                ("unfinished", models.BigIntegerField(db_default=0, default=0, help_text="how many are left")),
                (
                    "done",
                    models.BigIntegerField(
                        db_default=0, default=0, help_text="how many ended so, deleted ones included"
                    ),
                ),
                ("failed", models.BigIntegerField(db_default=0, default=0, help_text="as above")),
                ("cancelled", models.BigIntegerField(db_default=0, default=0, help_text="as above")),
                ("created_at", models.DateTimeField(db_default=Now(), help_text="when it was first named")),
                ("ended_at", models.DateTimeField(help_text="when sweep saw that nothing was left", null=True)),
                ("on_done_called_at", models.DateTimeField(help_text="when the broker took the call", null=True)),
                (
                    "on_done_again_at",
                    models.DateTimeField(help_text="when it is called again: a worker knew no such task", null=True),
                ),
            ],
            options={
                "verbose_name_plural": "batches",
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True), ("is_open", False), ("unfinished", 0)),
                        fields=["id"],
                        name="weir_batch_ending",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("ended_at__isnull", False),
                            ("on_done_called_at__isnull", True),
                            models.Q(("on_done", ""), _negated=True),
                        ),
                        fields=["ended_at"],
                        name="weir_batch_call_due",
                    ),
                    models.Index(
                        condition=models.Q(("on_done_again_at__isnull", False)),
                        fields=["on_done_again_at"],
                        name="weir_batch_called_again",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)), fields=["ended_at"], name="weir_batch_ended"
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True)), fields=["id"], name="weir_batch_unfinished"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            "BatchChange",
            [
                ("id", models.BigAutoField(help_text="in no order of commits", primary_key=True, serialize=False)),
                (
                    "batch",
                    models.ForeignKey(
                        db_constraint=False,
                        help_text="whose numbers",
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="weir_fetches.batch",
                    ),
                ),
                ("unfinished", models.BigIntegerField(help_text="more than before; negative: fewer")),
                ("done", models.BigIntegerField(help_text="as above")),
                ("failed", models.BigIntegerField(help_text="as above")),
                ("cancelled", models.BigIntegerField(help_text="as above")),
            ],
        ),
    ]
