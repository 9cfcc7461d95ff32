"""What due_since is for: a text, without a statement."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0014_access_token_refused_by")]

    operations = [
        migrations.AlterField(
            model_name="fetch",
            name="due_since",
            field=models.DateTimeField(
                help_text="not_before as it was before a wait for robots.txt or an access token: its place in the queue",
                null=True,
            ),
        ),
    ]
