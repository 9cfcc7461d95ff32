"""The columns of e-mails that the project writes itself, and sends through OutboxBackend."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_mail", "0002_events")]

    operations = [
        migrations.AddField(
            "email",
            "is_id_shared",
            models.BooleanField(db_default=False, default=False, help_text="others may know its Message-ID"),
        ),
        migrations.AddField(
            "email",
            "envelope_sender",
            models.CharField(blank=True, db_default="", default="", help_text="empty: as set", max_length=320),
        ),
    ]
