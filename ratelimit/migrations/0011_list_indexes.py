from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Collate, Reverse


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("ratelimit", "0010_slot_fate")]

    operations = [
        AddIndexConcurrently(
            model_name="site",
            index=models.Index(Collate(Reverse("name"), "C"), name="site_by_suffix"),
        ),
        AddIndexConcurrently(
            model_name="site",
            index=models.Index(
                condition=models.Q(
                    ("paused_until__isnull", False), ("backed_off_until__isnull", False), _connector="OR"
                ),
                fields=["name"],
                name="site_held",
                opclasses=["varchar_pattern_ops"],
            ),
        ),
        AddIndexConcurrently(
            model_name="site",
            index=models.Index(
                models.OrderBy(models.F("backoff_level"), descending=True),
                Collate("name", "C"),
                condition=models.Q(("backoff_level__gt", 0)),
                name="site_refusals",
            ),
        ),
    ]
