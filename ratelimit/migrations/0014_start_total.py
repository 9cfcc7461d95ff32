from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ratelimit", "0013_refusals_valid")]

    operations = [
        migrations.CreateModel(
            name="StartTotal",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                (
                    "out_of_time",
                    models.BigIntegerField(db_default=0, help_text="starts that were written out of their time"),
                ),
            ],
        ),
    ]
