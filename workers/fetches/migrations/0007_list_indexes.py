from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Collate, Left


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("fetches", "0006_traceparent")]

    operations = [
        AddIndexConcurrently(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", False)),
                fields=["site", "state", "finished_at", "id"],
                name="fetch_ended_at_site",
            ),
        ),
        AddIndexConcurrently(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("state__in", ["failed", "cancelled"])),
                fields=["state", "finished_at", "id"],
                name="fetch_not_done",
            ),
        ),
        AddIndexConcurrently(
            model_name="fetch",
            index=models.Index(
                condition=models.Q(("state", "queued")), fields=["created_at", "id"], name="fetch_queued"
            ),
        ),
        AddIndexConcurrently(
            model_name="fetch",
            index=models.Index(
                Collate(Left("url", 100), "C"),
                models.F("id"),
                condition=models.Q(("state__in", ["reserved", "running"]), _negated=True),
                name="fetch_by_url",
            ),
        ),
    ]
