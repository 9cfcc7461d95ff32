"""The index of the webhooks of an endpoint."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0026_endpoint")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(
                condition=models.Q(("endpoint_id__isnull", False)),
                fields=["endpoint_id", "state", "finished_at"],
                name="weir_fetch_of_endpoint",
            ),
        ),
    ]
