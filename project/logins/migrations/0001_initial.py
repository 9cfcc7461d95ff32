import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="KnownAddress",
            fields=[
                ("key", models.TextField(primary_key=True, serialize=False)),
                ("known_until", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["known_until"], name="weir_known_address_expired")],
            },
        ),
        migrations.CreateModel(
            name="Link",
            fields=[
                (
                    "token_hash",
                    models.BinaryField(
                        help_text="SHA-256 of the token", max_length=32, primary_key=True, serialize=False
                    ),
                ),
                ("good_until", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Rate",
            fields=[
                ("key", models.TextField(primary_key=True, serialize=False)),
                ("next_attempt", models.DateTimeField(help_text="GCRA's theoretical arrival time")),
            ],
            options={
                "indexes": [models.Index(fields=["next_attempt"], name="weir_rate_expired")],
            },
        ),
    ]
