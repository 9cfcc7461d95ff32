"""Which effects concern a user."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("weir_effects", "0007_users")]

    operations = [
        AddIndexConcurrently(
            "effect",
            models.Index(
                fields=["user_key", "id"],
                condition=models.Q(("user_key", ""), _negated=True),
                name="weir_effect_user",
            ),
        )
    ]
