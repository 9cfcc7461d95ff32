from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("ratelimit", "0006_round_trips")]

    operations = [
        migrations.AddField(model_name="site", name="created_at", field=models.DateTimeField(db_default=Now())),
        # Nobody knows who set the sites that exist: they stay.
        migrations.AddField(
            model_name="site",
            name="is_kept",
            field=models.BooleanField(db_default=True, help_text="a person has set or paused it: purge leaves it"),
        ),
        migrations.AlterField(
            model_name="site",
            name="is_kept",
            field=models.BooleanField(db_default=False, help_text="a person has set or paused it: purge leaves it"),
        ),
        migrations.CreateModel(
            name="DeletedSite",
            fields=[
                (
                    "site_id",
                    models.BigIntegerField(
                        help_text="the id that it had; no other site ever gets it", primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=300)),
                (
                    "last_start",
                    models.DateTimeField(help_text="no request to its hosts was started later than this"),
                ),
                ("deleted_at", models.DateTimeField(db_default=Now())),
            ],
            options={"indexes": [models.Index(fields=["name"], name="deletedsite_by_name")]},
        ),
    ]
