"""A further value of `door`, which changes nothing in PostgreSQL."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_audit", "0001_initial")]

    operations = [
        migrations.AlterField(
            "entry",
            "door",
            models.CharField(
                max_length=10,
                choices=[
                    ("page", "Page"),
                    ("admin", "Admin"),
                    ("command", "Command"),
                    ("api", "API"),
                    ("code", "Code"),
                ],
                help_text="where the actor came in",
            ),
        )
    ]
