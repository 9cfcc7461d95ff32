from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("processes", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="process",
            name="round_trip_s",
            field=models.FloatField(
                db_default=0.0, help_text="what nearly all of its round trips to PostgreSQL took at most"
            ),
        ),
    ]
