"""Webhooks: to which endpoint a fetch delivers an event."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0025_index_of_references")]

    operations = [
        migrations.AddField(
            "fetch",
            "endpoint_id",
            models.BigIntegerField(help_text="to which it is a webhook; the endpoint may be gone", null=True),
        ),
    ]
