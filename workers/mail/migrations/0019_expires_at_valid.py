from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("mail", "0018_expires_at")]

    operations = [ValidateConstraint(model_name="email", name="email_state_known")]
