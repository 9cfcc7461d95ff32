from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("processes", "0003_kind")]

    operations = [
        migrations.AlterField(
            model_name="process",
            name="kind",
            field=models.CharField(
                help_text="fetcher, worker, ticks, maintenance, mailer or beat; several of a worker are joined by +",
                max_length=100,
            ),
        ),
    ]
