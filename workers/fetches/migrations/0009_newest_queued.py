"""Another index of queued fetches by age, which does not compete with the index of the queue."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0008_access_tokens")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(
                fields=["created_at", "id"],
                condition=models.Q(("finished_at__isnull", True), ("state", "queued")),
                name="weir_fetch_newest_queued",
            ),
        ),
    ]
