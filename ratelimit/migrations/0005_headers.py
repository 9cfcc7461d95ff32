"""The headers of the requests to a site."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_ratelimit", "0004_silence")]

    operations = [
        migrations.AddField(
            "site",
            "headers",
            models.JSONField(null=True, blank=True, help_text="of the requests, by name; placeholders for secrets"),
        )
    ]
