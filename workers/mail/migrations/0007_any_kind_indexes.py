import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.text
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mail", "0006_resolution_act")]

    operations = [
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(
                condition=models.Q(("state", "pending")),
                fields=["kind", "priority", "next_attempt_at", "id"],
                name="email_queues",
            ),
        ),
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(
                condition=models.Q(("state", "sent"), _negated=True),
                fields=["state", "created_at", "id"],
                name="email_not_sent",
            ),
        ),
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(fields=["kind", "id"], name="email_kind"),
        ),
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(
                django.db.models.functions.comparison.Collate(django.db.models.functions.text.Lower("recipient"), "C"),
                models.F("id"),
                name="email_recipient",
            ),
        ),
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(fields=["message_id"], name="email_message_id"),
        ),
    ]
