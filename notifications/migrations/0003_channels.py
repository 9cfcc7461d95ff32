"""Channels: users' preferences, and which e-mail tells a notification that nobody has read."""

from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now

from weir.notifications import user_keys

CHANNELS = [
    ("page", "on the page"),
    ("email", "by an e-mail of its own"),
    ("digest", "by a digest, unless it is read before"),
    ("none", "not at all"),
]


class Migration(migrations.Migration):
    dependencies = [("weir_notifications", "0002_uncovered")]

    operations = [
        migrations.AddField(
            "notification",
            "digest_due_at",
            models.DateTimeField(
                null=True,
                blank=True,
                editable=False,
                help_text="from when a digest tells it if it is unread; empty = none",
            ),
        ),
        migrations.AddField(
            "notification",
            "digest_id",
            models.BigIntegerField(
                null=True,
                blank=True,
                editable=False,
                help_text="the e-mail that is to tell it or, without a due time, has",
            ),
        ),
        migrations.CreateModel(
            "Preference",
            [
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("user_id", user_keys.field()),
                (
                    "kind",
                    models.CharField(
                        max_length=100,
                        blank=True,
                        help_text="empty: all kinds that would be told by digest, and were not chosen",
                    ),
                ),
                ("channel", models.CharField(max_length=10, choices=CHANNELS)),
                ("since", models.DateTimeField(db_default=Now(), editable=False)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["user_id", "kind"], name="weir_preference_unique"),
                    models.CheckConstraint(
                        condition=Q(channel__in=["page", "email", "digest", "none"]),
                        name="weir_preference_channel_known",
                    ),
                ]
            },
        ),
    ]
