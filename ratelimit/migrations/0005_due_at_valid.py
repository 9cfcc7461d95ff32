from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ratelimit", "0004_site_due")]

    operations = [ValidateConstraint(model_name="site", name="site_with_backlog_has_no_due_at")]
