"""Whose the fetches of a watch are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_watches", "0001_initial")]

    operations = [
        migrations.AddField(
            "watch",
            "share",
            models.CharField(max_length=100, blank=True, default="", db_default="", help_text="whose its fetches are"),
        ),
    ]
