"""The index by which the fetches of a reference are found."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0024_reference")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(fields=["reference", "id"], condition=Q(reference__isnull=False), name="weir_fetch_reference"),
        ),
    ]
