from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0005_paused_suppressed_held")]

    operations = [
        migrations.AddField(
            model_name="resolution",
            name="act",
            field=models.CharField(
                blank=True,
                choices=[
                    ("arrived", "it arrived"),
                    ("resend", "send it again"),
                    ("give up", "leave it unsent"),
                    ("cancel", "do not send it"),
                    ("correct", "render it anew"),
                    ("bounced", "it came back"),
                ],
                db_default="",
                help_text="empty in old rows",
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="resolution",
            name="arrived",
            field=models.BooleanField(db_default=False, help_text="it arrived: what old rows say instead of `act`"),
        ),
        migrations.AlterField(
            model_name="resolution",
            name="state",
            field=models.CharField(
                choices=[
                    ("pending", "Pending"),
                    ("claimed", "Claimed"),
                    ("sending", "Sending"),
                    ("sent", "Sent"),
                    ("failed", "Failed"),
                    ("unknown", "Unknown"),
                    ("bounced", "Bounced"),
                    ("cancelled", "Cancelled"),
                    ("suppressed", "Suppressed"),
                ],
                help_text="the e-mail's, before",
                max_length=10,
            ),
        ),
    ]
