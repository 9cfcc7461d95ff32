"""Which effects have their tasks called again, as a worker knew none of that name."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_effects", "0003_weir_effect_owes_call")]

    operations = [
        AddIndexConcurrently(
            "effect",
            models.Index(
                fields=["on_done_again_at"],
                condition=models.Q(on_done_again_at__isnull=False),
                name="weir_effect_called_again",
            ),
        )
    ]
