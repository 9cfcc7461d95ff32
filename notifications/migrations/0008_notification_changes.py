from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("notifications", "0007_reconciliation_pages")]

    operations = [
        AddIndexConcurrently(
            model_name="notification",
            index=models.Index(fields=["changed_at", "id"], include=("user_id",), name="notification_changes"),
        ),
    ]
