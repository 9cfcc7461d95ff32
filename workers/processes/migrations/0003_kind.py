from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("processes", "0002_round_trip")]

    operations = [
        migrations.AlterField(
            model_name="process",
            name="kind",
            field=models.CharField(help_text="fetcher, worker, ticks, maintenance, mailer or beat", max_length=20),
        ),
    ]
