"""The weights of a site's shares, and whose turn it is there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_ratelimit", "0007_network")]

    operations = [
        migrations.AddField(
            "site",
            "weights",
            models.JSONField(null=True, blank=True, help_text="of its shares, by name; of all others 1"),
        ),
        migrations.AddField(
            "site",
            "turn_share",
            models.CharField(max_length=100, null=True, db_collation="C"),
        ),
        migrations.AddField(
            "site",
            "turn_used",
            models.PositiveSmallIntegerField(db_default=0, help_text="how many fetches it has had in that turn"),
        ),
    ]
