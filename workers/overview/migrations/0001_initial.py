import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="OpenProblem",
            fields=[
                (
                    "key",
                    models.CharField(
                        help_text="its alarm, and what it is about",
                        max_length=200,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "since",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), help_text="when it was seen first"
                    ),
                ),
                (
                    "seen_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), help_text="when it was seen last"
                    ),
                ),
                ("told_at", models.DateTimeField(help_text="when operators were told of it", null=True)),
            ],
            options={
                "default_permissions": ("view",),
            },
        ),
    ]
