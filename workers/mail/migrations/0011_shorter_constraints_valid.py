from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("mail", "0010_shorter_constraints")]

    operations = [
        ValidateConstraint(model_name="email", name="email_held_has_token"),
        ValidateConstraint(model_name="email", name="email_claimed_has_lease"),
        ValidateConstraint(model_name="email", name="email_sending_has_since"),
        ValidateConstraint(model_name="email", name="email_sent_has_sent_at"),
    ]
