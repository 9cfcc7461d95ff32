"""Whether a site without a row in a minute had nothing in it: then that is a known zero."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_history", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="minute",
            name="has_all_sites",
            field=models.BooleanField(
                db_default=False,
                help_text="each site with a slot or an ended fetch has its row: others had none",
            ),
        ),
    ]
