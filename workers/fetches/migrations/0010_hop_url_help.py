from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fetches", "0009_losses")]

    operations = [
        # Only what the text says: no statement.
        migrations.AlterField(
            model_name="fetch",
            name="hop_url",
            field=models.TextField(
                blank=True, help_text="what is requested: url as it is sent, or where redirects led"
            ),
        ),
    ]
