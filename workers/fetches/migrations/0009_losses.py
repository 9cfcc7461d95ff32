from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fetches", "0008_incomplete"),
    ]

    operations = [
        migrations.AddField(
            model_name="fetch",
            name="losses",
            field=models.IntegerField(
                db_default=0,
                default=0,
                help_text="how often it was lost with a fetcher",
            ),
        ),
        migrations.AddField(
            model_name="fetch",
            name="in_hand",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="a fetcher has its answer alone in hand",
            ),
        ),
        migrations.AlterField(
            model_name="fetch",
            name="attempts",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, help_text="attempts that ended, and losses that count as one"
            ),
        ),
    ]
