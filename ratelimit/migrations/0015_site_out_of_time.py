from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ratelimit", "0014_start_total")]

    operations = [
        migrations.AddField(
            model_name="site",
            name="starts_out_of_time",
            field=models.BigIntegerField(db_default=0, help_text="starts that were written out of their time"),
        ),
        migrations.AddField(
            model_name="site",
            name="out_of_time_at",
            field=models.DateTimeField(help_text="when the last of these was written, at the latest", null=True),
        ),
    ]
