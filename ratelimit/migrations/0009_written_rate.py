from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ratelimit", "0008_processes_have_round_trips")]

    operations = [
        migrations.AddField(
            model_name="site",
            name="written_rate",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="the rate as it was written; it is shown so where it stands for the interval",
                max_length=50,
            ),
        )
    ]
