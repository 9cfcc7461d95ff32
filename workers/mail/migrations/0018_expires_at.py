"""E-mails expire: a column, and a state more that the constraint takes; all that older versions write is taken as before."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

STATES = [
    ("pending", "Pending"),
    ("claimed", "Claimed"),
    ("sending", "Sending"),
    ("sent", "Sent"),
    ("failed", "Failed"),
    ("unknown", "Unknown"),
    ("bounced", "Bounced"),
    ("cancelled", "Cancelled"),
    ("suppressed", "Suppressed"),
    ("expired", "Expired"),
]


class Migration(migrations.Migration):
    dependencies = [("mail", "0017_email_provider_id")]

    operations = [
        migrations.AddField(
            model_name="email",
            name="expires_at",
            field=models.DateTimeField(
                help_text="no attempt begins from then on; empty: it does not expire", null=True
            ),
        ),
        migrations.AlterField(
            model_name="email",
            name="state",
            field=models.CharField(choices=STATES, default="pending", max_length=10),
        ),
        migrations.RemoveConstraint(model_name="email", name="email_state_known"),
        AddConstraintNotValid(
            model_name="email",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", [value for value, _ in STATES])), name="email_state_known"
            ),
        ),
        # Choices only: this executes no statement, so that no second table is locked.
        migrations.AlterField(
            model_name="resolution",
            name="state",
            field=models.CharField(choices=STATES, help_text="the e-mail's, before", max_length=10),
        ),
    ]
