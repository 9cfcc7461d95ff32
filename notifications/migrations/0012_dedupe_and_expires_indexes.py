from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from weir.notifications import user_keys
from weir.postgres.operations import AddUniqueConstraintConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("notifications", "0011_dedupe_key_and_expires_at")]

    operations = [
        AddUniqueConstraintConcurrently(
            "notification",
            models.UniqueConstraint(
                fields=[user_keys.owner(), "dedupe_key"],
                condition=Q(dedupe_key__isnull=False),
                name="notification_dedupe",
            ),
        ),
        AddIndexConcurrently(
            "notification",
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="notification_expires"),
        ),
    ]
