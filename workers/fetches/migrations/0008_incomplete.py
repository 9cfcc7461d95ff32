from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fetches", "0007_list_indexes"),
    ]

    operations = [
        migrations.AddField(
            model_name="fetch",
            name="incomplete",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="why the stored body is not all of it, or not what its headers say; empty: it is whole",
            ),
        ),
    ]
