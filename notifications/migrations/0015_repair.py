from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("notifications", "0014_forgotten_until")]

    operations = [
        # A new table waits for nobody, so that only one is waited for.
        migrations.CreateModel(
            name="Repair",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("repaired_at", models.DateTimeField()),
                ("users", models.PositiveIntegerField(help_text="whose numbers were wrong")),
                ("drift", models.BigIntegerField(help_text="by how much, in all: the sum without signs")),
            ],
        ),
        migrations.AddField(
            "reconciliation",
            "scan_ended_at",
            models.DateTimeField(null=True, help_text="when that came to its end"),
        ),
        migrations.AddField(
            "reconciliation",
            "repaired_users",
            models.BigIntegerField(db_default=0, help_text="repaired since the first pass; only grows"),
        ),
    ]
