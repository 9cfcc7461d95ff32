"""Whose a fetch is: the shares of a site take turns."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0016_to_be_judged")]

    operations = [
        migrations.AddField(
            "fetch",
            "share",
            models.CharField(
                max_length=100,
                null=True,
                blank=True,
                db_collation="C",
                help_text=(
                    "whose it is: the shares of a site take turns; NULL, and where the site has shares empty: nobody's"
                ),
            ),
        ),
    ]
