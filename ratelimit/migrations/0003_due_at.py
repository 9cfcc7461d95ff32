from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    """When something becomes due at a site at which nothing is due now, so that dispatch need not look at it."""

    dependencies = [("ratelimit", "0002_backoff_error")]

    operations = [
        migrations.AddField(
            model_name="site",
            name="due_at",
            field=models.DateTimeField(
                help_text="while has_backlog is false: when the first queued fetch becomes due", null=True
            ),
        ),
        AddConstraintNotValid(
            model_name="site",
            constraint=models.CheckConstraint(
                condition=models.Q(("has_backlog", False), ("due_at__isnull", True), _connector="OR"),
                name="site_with_backlog_has_no_due_at",
            ),
        ),
    ]
