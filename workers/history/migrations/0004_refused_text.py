from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("history", "0003_failure_class"),
    ]

    operations = [
        migrations.AlterField(
            model_name="minute",
            name="refused",
            field=models.IntegerField(default=0, help_text="of those that failed: their last answer was a refusal"),
        ),
        migrations.AlterField(
            model_name="siteminute",
            name="refused",
            field=models.IntegerField(default=0, help_text="of those that failed: their last answer was a refusal"),
        ),
    ]
