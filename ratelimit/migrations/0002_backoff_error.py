from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ratelimit", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="site",
            name="backoff_error",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="why it is unreachable; empty where it refused requests",
                max_length=300,
            ),
        ),
    ]
