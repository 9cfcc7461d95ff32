import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="BeatLease",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("holder", models.UUIDField(help_text="random, of the process")),
                (
                    "lease_until",
                    models.DateTimeField(help_text="when another beat may take it; the holder renews it each second"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("queue", models.CharField(max_length=50, primary_key=True, serialize=False)),
                ("beat_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
    ]
