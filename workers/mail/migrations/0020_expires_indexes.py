"""What expires has an index, and expired ones are among those that were not sent: in another index, built first."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mail", "0019_expires_at_valid")]

    operations = [
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False), ("state__in", ["pending", "claimed"])),
                fields=["expires_at"],
                name="email_expires",
            ),
        ),
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(
                condition=models.Q(
                    ("state__in", ["failed", "unknown", "bounced", "cancelled", "suppressed", "expired"])
                ),
                fields=["kind", "state", "created_at", "id"],
                name="email_unsent_by_kind",
            ),
        ),
        RemoveIndexConcurrently(model_name="email", name="email_unsent_of_kind"),
    ]
