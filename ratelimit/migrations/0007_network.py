"""How a site is reached: its proxy, authorities, and certificate."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_ratelimit", "0006_query")]

    operations = [
        migrations.AddField(
            "site",
            "network",
            models.JSONField(null=True, blank=True, help_text="proxy, ca, certificate; placeholders for secrets"),
        )
    ]
