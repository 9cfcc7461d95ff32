"""The index of the notifications that an e-mail tells."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_notifications", "0004_index_of_due_digests")]

    operations = [
        AddIndexConcurrently(
            "notification",
            models.Index(
                fields=["digest_id"],
                condition=models.Q(digest_id__isnull=False),
                name="weir_notification_digest",
            ),
        ),
    ]
