"""The index of the notifications that no digest has yet."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_notifications", "0003_channels")]

    operations = [
        AddIndexConcurrently(
            "notification",
            models.Index(
                fields=["digest_due_at"],
                include=["user_id"],
                condition=models.Q(
                    ("read_at__isnull", True), ("digest_due_at__isnull", False), ("digest_id__isnull", True)
                ),
                name="weir_notification_digest_due",
            ),
        ),
    ]
