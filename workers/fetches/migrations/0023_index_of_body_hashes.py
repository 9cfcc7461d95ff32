"""Which fetches have a kept body?"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("weir_fetches", "0022_shared_bodies")]

    operations = [
        AddIndexConcurrently(
            "fetchbody",
            models.Index(
                condition=models.Q(("sha256__isnull", False)), fields=["sha256"], name="weir_fetchbody_sha256"
            ),
        ),
    ]
