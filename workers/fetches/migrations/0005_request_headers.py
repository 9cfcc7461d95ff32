"""The header fields that the request of one fetch has."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0004_weir_fetch_called_again")]

    operations = [
        migrations.AddField(
            "fetch",
            "request_headers",
            models.JSONField(null=True, help_text="fields of its request's head; secrets are only named"),
        ),
        migrations.AddField(
            "fetch",
            "left_origin",
            models.BooleanField(default=False, db_default=False, help_text="a redirect has led to another origin"),
        ),
    ]
