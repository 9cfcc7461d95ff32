from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fetches", "0001_initial"),
        ("ratelimit", "0003_due_at"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="robotsfile",
            name="robots_state_known",
        ),
        migrations.RemoveConstraint(
            model_name="robotsfile",
            name="robots_unreachable_says_why",
        ),
        migrations.AlterField(
            model_name="robotsfile",
            name="error",
            field=models.TextField(blank=True, help_text="why it is unreachable or forbidden"),
        ),
        migrations.AlterField(
            model_name="robotsfile",
            name="state",
            field=models.CharField(
                choices=[
                    ("allowed", "Allowed"),
                    ("rules", "Rules"),
                    ("unreachable", "Unreachable"),
                    ("forbidden", "Forbidden"),
                ],
                max_length=11,
            ),
        ),
        AddConstraintNotValid(
            model_name="robotsfile",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["allowed", "rules", "unreachable", "forbidden"])),
                name="robots_state_known",
            ),
        ),
        AddConstraintNotValid(
            model_name="robotsfile",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["unreachable", "forbidden"]), ("error", ""), _connector="XOR"),
                name="robots_unreachable_says_why",
            ),
        ),
    ]
