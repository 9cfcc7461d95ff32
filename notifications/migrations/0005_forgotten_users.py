from django.db import migrations, models

from weir.notifications import user_keys


class Migration(migrations.Migration):
    dependencies = [("notifications", "0004_notification_unread_since")]

    operations = [
        migrations.CreateModel(
            "ForgottenUser",
            [
                ("user_id", user_keys.field(primary_key=True, serialize=False)),
                ("forgotten_at", models.DateTimeField()),
            ],
        ),
    ]
