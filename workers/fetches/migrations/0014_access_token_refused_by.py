"""A token that one site refuses may be good at another one."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0013_index_of_batches")]

    operations = [
        migrations.AddField(
            model_name="accesstoken",
            name="refused_by",
            field=ArrayField(
                base_field=models.BigIntegerField(),
                null=True,
                size=None,
                help_text="the sites that answered 401 to the newest token; null: none",
            ),
        ),
    ]
