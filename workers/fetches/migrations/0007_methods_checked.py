"""The constraints of 0006 hold for all rows."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0006_methods")]

    operations = [
        ValidateConstraint("fetch", "weir_fetch_method_known"),
        ValidateConstraint("fetch", "weir_fetch_max_redirects_bounded"),
        ValidateConstraint("requestbody", "weir_fetches_requestbody_of_fetch"),
    ]
