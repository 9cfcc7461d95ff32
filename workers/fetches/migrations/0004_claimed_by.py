from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fetches", "0003_forbidden_origins_valid"),
    ]

    operations = [
        migrations.AddField(
            model_name="fetch",
            name="claimed_by",
            field=models.BigIntegerField(help_text="the process that claimed it last; its row may be gone", null=True),
        ),
    ]
