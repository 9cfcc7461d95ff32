"""What the column `number` holds is called a generation."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("weir_timeline", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("knowntimeline", "number", "generation"),
                migrations.AlterField(
                    "knowntimeline",
                    "generation",
                    models.BigIntegerField(
                        db_column="number", help_text="grows with time; processes and Redis remember it, too"
                    ),
                ),
            ]
        )
    ]
