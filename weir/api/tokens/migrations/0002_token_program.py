"""A token may replace another one of the same program."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_tokens", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="token",
            name="program",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="the name of the first token of its program; empty: it is the first",
                max_length=100,
            ),
        ),
    ]
