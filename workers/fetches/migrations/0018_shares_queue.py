"""The queue of each share of a site."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_fetches", "0017_share")]

    operations = [
        AddIndexConcurrently(
            "fetch",
            models.Index(
                fields=["site", "share", "-priority", "not_before", "id"],
                condition=Q(share__isnull=False, lease_until__isnull=True, finished_at__isnull=True),
                name="weir_fetch_shares",
            ),
        ),
    ]
