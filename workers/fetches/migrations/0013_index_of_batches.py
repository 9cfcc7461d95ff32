"""The index of the fetches of a batch."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0012_fetches_of_batches")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(
                condition=models.Q(("batch__isnull", False)),
                fields=["batch", "state", "id"],
                name="weir_fetch_of_batch",
            ),
        ),
    ]
