"""The reference of a fetch: what its caller calls it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0020_ahead_in_turn")]

    operations = [
        migrations.AddField(
            "fetch",
            "reference",
            models.CharField(
                blank=True, help_text="the caller's own name for it; not unique", max_length=200, null=True
            ),
        ),
    ]
