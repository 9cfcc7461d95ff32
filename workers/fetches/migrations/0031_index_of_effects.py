"""The index of the fetches whose requests are made once."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0030_effect")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(
                condition=models.Q(("effect__isnull", False)),
                fields=["effect"],
                name="weir_fetch_of_effect",
            ),
        ),
    ]
