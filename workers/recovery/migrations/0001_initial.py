import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Recovery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("ended_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "since",
                    models.DateTimeField(
                        help_text="the last moment of which PostgreSQL is known to have known everything"
                    ),
                ),
                ("why", models.TextField(help_text="how it was found out, or what the operator says")),
                ("who", models.TextField(help_text="the process that found it out, or the operator")),
                ("sites", models.PositiveIntegerField(help_text="that rest")),
                ("emails", models.PositiveIntegerField(help_text="that became unknown")),
                (
                    "is_loss",
                    models.BooleanField(default=True, help_text="no: an operator has said that nothing was lost"),
                ),
            ],
            options={
                "verbose_name_plural": "recoveries",
                "indexes": [models.Index(fields=["ended_at"], name="weir_recovery_ended_at")],
            },
        ),
    ]
