import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Process",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        help_text="fetcher, worker, ticks, maintenance, mailer or beat; several of a worker are joined by +",
                        max_length=100,
                    ),
                ),
                ("name", models.CharField(help_text="as Celery names its workers: fetcher.1@host", max_length=300)),
                ("host", models.CharField(max_length=255)),
                ("pid", models.IntegerField(help_text="its id on its host, or in its container")),
                ("version", models.CharField(help_text="of Weir", max_length=50)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "turned_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), help_text="the last turn of its own loop"
                    ),
                ),
                (
                    "steady_since",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="since then each turn came in time: PostgreSQL was there for whoever turned",
                    ),
                ),
                (
                    "stopping_at",
                    models.DateTimeField(help_text="when it was asked to end; it still ends what it holds", null=True),
                ),
                (
                    "holds",
                    models.IntegerField(
                        default=0,
                        help_text="fetches that it claimed, tasks that it runs, or 1 for the beat that has the lease",
                    ),
                ),
                (
                    "round_trip_s",
                    models.FloatField(
                        db_default=0.0, help_text="what nearly all of its round trips to PostgreSQL took at most"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "processes",
            },
        ),
    ]
