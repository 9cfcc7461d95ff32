"""The header fields that requests to a site have."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_ratelimit", "0004_silence")]

    operations = [
        migrations.AddField(
            "site",
            "headers",
            models.JSONField(
                null=True,
                blank=True,
                help_text="fields of each request's head, by name; secrets are only named in the values",
            ),
        )
    ]
