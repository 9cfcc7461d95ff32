from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("notifications", "0009_remove_notification_changed")]

    operations = [
        AddIndexConcurrently(
            model_name="doubt",
            index=models.Index(fields=["noted_at", "user_id"], name="doubt_oldest"),
        ),
    ]
