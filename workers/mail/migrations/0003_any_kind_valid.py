from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("mail", "0002_any_kind")]

    operations = [
        ValidateConstraint(model_name="email", name="email_state_known"),
        ValidateConstraint(model_name="email", name="email_sent_has_sent_at"),
    ]
