"""The parameters that a site adds to the query of its requests."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_ratelimit", "0005_headers")]

    operations = [
        migrations.AddField(
            "site",
            "query",
            models.JSONField(null=True, blank=True, help_text="that each URL gets, by name; placeholders for secrets"),
        )
    ]
