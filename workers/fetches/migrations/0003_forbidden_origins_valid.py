from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("fetches", "0002_forbidden_origins")]

    operations = [
        ValidateConstraint(model_name="robotsfile", name="robots_state_known"),
        ValidateConstraint(model_name="robotsfile", name="robots_unreachable_says_why"),
    ]
