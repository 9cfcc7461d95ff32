from django.db import migrations, models

from weir.notifications import user_keys


class Migration(migrations.Migration):
    dependencies = [("notifications", "0012_dedupe_and_expires_indexes")]

    operations = [
        migrations.CreateModel(
            name="Excess",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user_id", user_keys.field()),
            ],
            options={
                "verbose_name_plural": "excesses",
                "indexes": [models.Index(fields=["user_id"], name="excess_user")],
            },
        ),
    ]
