"""The reference of a fetch: what its caller calls it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0023_index_of_body_hashes")]

    operations = [
        migrations.AddField(
            "fetch",
            "reference",
            models.CharField(
                blank=True, help_text="the caller's own name for it; not unique", max_length=200, null=True
            ),
        ),
    ]
