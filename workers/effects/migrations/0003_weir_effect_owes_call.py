"""Which effects have ended, and have not called their tasks since."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_effects", "0002_on_done")]

    operations = [
        AddIndexConcurrently(
            "effect",
            models.Index(
                fields=["ended_at"],
                condition=models.Q(
                    ("state__in", ["done", "failed", "cancelled", "expired"]),
                    models.Q(("on_done", ""), _negated=True),
                    models.Q(
                        ("on_done_called_at__isnull", True),
                        ("on_done_called_at__lt", models.F("ended_at")),
                        _connector="OR",
                    ),
                ),
                name="weir_effect_owes_call",
            ),
        )
    ]
