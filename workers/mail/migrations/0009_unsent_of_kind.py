from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mail", "0008_mail_act")]

    operations = [
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(
                condition=models.Q(("state__in", ["failed", "unknown", "bounced", "cancelled", "suppressed"])),
                fields=["kind", "state", "created_at", "id"],
                name="email_unsent_of_kind",
            ),
        ),
    ]
