from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("ratelimit", "0003_due_at")]

    operations = [
        AddIndexConcurrently(
            model_name="site",
            index=models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="site_due"),
        ),
    ]
