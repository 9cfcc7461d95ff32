from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0011_shorter_constraints_valid")]

    operations = [
        migrations.AddField(
            model_name="email",
            name="ended_at",
            field=models.DateTimeField(
                help_text="when it came into the state in which it ended; empty in rows from before this column",
                null=True,
            ),
        ),
    ]
