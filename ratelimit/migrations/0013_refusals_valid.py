from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ratelimit", "0012_refusals")]

    operations = [ValidateConstraint(model_name="site", name="site_refusing_usable")]
