"""Which effects have ended, for the purge after WEIR_EFFECT_RETENTION."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_effects", "0004_weir_effect_called_again")]

    operations = [
        AddIndexConcurrently(
            "effect",
            models.Index(
                fields=["ended_at"],
                condition=models.Q(state__in=["done", "failed", "cancelled", "expired"]),
                name="weir_effect_ended",
            ),
        )
    ]
