"""Which effects have ended whose users were to be forgotten."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_effects", "0008_weir_effect_user")]

    operations = [
        AddIndexConcurrently(
            "effect",
            models.Index(
                fields=["user_key", "id"],
                condition=models.Q(
                    ("forgotten_at__isnull", False),
                    ("on_done_again_at__isnull", True),
                    ("state__in", ["done", "failed", "cancelled", "expired"]),
                    models.Q(
                        models.Q(("user_key", ""), _negated=True),
                        ("forgotten_at__lt", models.F("ended_at")),
                        _connector="OR",
                    ),
                    models.Q(
                        ("on_done", ""),
                        ("on_done_called_at__gte", models.F("ended_at")),
                        _connector="OR",
                    ),
                ),
                name="weir_effect_to_forget",
            ),
        )
    ]
