from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("notifications", "0010_doubt_oldest")]

    operations = [
        migrations.AddField(
            "notification",
            "dedupe_key",
            models.CharField(
                max_length=255, null=True, blank=True, help_text="of a user's notifications one has it; empty = none"
            ),
        ),
        migrations.AddField(
            "notification",
            "expires_at",
            models.DateTimeField(null=True, blank=True, help_text="when it is deleted; empty = never by itself"),
        ),
    ]
