"""The index of the fetches that wait for what becomes of their effects."""

from datetime import UTC, datetime

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0031_index_of_effects")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(
                condition=models.Q(
                    ("effect__isnull", False),
                    ("not_before__gte", datetime(8000, 1, 1, tzinfo=UTC)),
                    ("state", "queued"),
                ),
                fields=["id"],
                name="weir_fetch_awaits_effect",
            ),
        ),
    ]
