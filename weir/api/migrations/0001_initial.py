import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("weir_tokens", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=255)),
                (
                    "request_hash",
                    models.CharField(help_text="SHA-256 of the method, the path and the body", max_length=64),
                ),
                ("status", models.PositiveSmallIntegerField()),
                ("body", models.TextField(help_text="JSON")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "token",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="weir_tokens.token",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["created_at"], name="weir_kept_answer_by_age")],
                "constraints": [models.UniqueConstraint(fields=("token", "key"), name="weir_kept_answer_once")],
            },
        ),
    ]
