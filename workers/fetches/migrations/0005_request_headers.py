"""The headers of the request of one fetch, and whether they may still be sent."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0004_weir_fetch_called_again")]

    operations = [
        migrations.AddField(
            "fetch",
            "request_headers",
            models.JSONField(null=True, help_text="by name; placeholders for secrets"),
        ),
        migrations.AddField(
            "fetch",
            "has_left_origin",
            models.BooleanField(default=False, db_default=False, help_text="by a redirect"),
        ),
    ]
