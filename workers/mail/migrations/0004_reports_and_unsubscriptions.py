"""What reports say about an e-mail that did not come back, and who has unsubscribed from which kind."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_mail", "0003_any_email")]

    operations = [
        migrations.AddField(
            model_name="email",
            name="delivered_at",
            field=models.DateTimeField(null=True, help_text="when a report says that the recipient's server took it"),
        ),
        migrations.AddField(
            model_name="email",
            name="complained_at",
            field=models.DateTimeField(null=True, help_text="when its recipient complained of it"),
        ),
        migrations.CreateModel(
            name="Unsubscription",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=100)),
                (
                    "address_hash",
                    models.CharField(help_text="SHA-256 of the address in lower case", max_length=64),
                ),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("address_hash", "kind"), name="weir_unsubscription_unique")
                ],
            },
        ),
    ]
