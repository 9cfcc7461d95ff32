from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("notifications", "0008_notification_changes")]

    operations = [RemoveIndexConcurrently(model_name="notification", name="notification_changed")]
