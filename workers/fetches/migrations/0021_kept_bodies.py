"""Bodies that are kept once, the files of storages, and what purge has to look at."""

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0020_ahead_in_turn")]

    operations = [
        migrations.CreateModel(
            "KeptBody",
            [
                ("sha256", models.BinaryField(help_text="its SHA-256", primary_key=True, serialize=False)),
                ("content", models.BinaryField(help_text="NULL: it is in a file", null=True)),
                ("size", models.BigIntegerField(help_text="bytes")),
                (
                    "storage",
                    models.TextField(
                        blank=True, db_default="", default="", help_text="of `STORAGES`, if it is in a file"
                    ),
                ),
                (
                    "file",
                    models.TextField(blank=True, db_default="", default="", help_text="its name in that storage"),
                ),
                ("kept_at", models.DateTimeField(db_default=Now())),
            ],
            options={"verbose_name_plural": "kept bodies"},
        ),
        migrations.CreateModel(
            "ReleasedBody",
            [
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("sha256", models.BinaryField(help_text="of the KeptBody")),
            ],
            options={"verbose_name_plural": "released bodies"},
        ),
        migrations.CreateModel(
            "BodyFile",
            [
                ("name", models.TextField(help_text="in its storage", primary_key=True, serialize=False)),
                ("storage", models.TextField(help_text="of `STORAGES`")),
                ("noted_at", models.DateTimeField(db_default=Now())),
            ],
        ),
        migrations.CreateModel(
            "BodyKeeping",
            [
                ("id", models.SmallIntegerField(db_default=1, default=1, primary_key=True, serialize=False)),
                (
                    "turned_at",
                    models.DateTimeField(help_text="its last turn: bodies are kept once as long as there are turns"),
                ),
                (
                    "deleted_until",
                    models.DateTimeField(help_text="the bodies of fetches that ended before are deleted", null=True),
                ),
            ],
            options={"verbose_name_plural": "body keeping"},
        ),
    ]
