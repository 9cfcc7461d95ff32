from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mail", "0016_forgotten_phase")]

    operations = [
        AddIndexConcurrently(
            model_name="email",
            index=models.Index(
                condition=models.Q(("provider_id", ""), _negated=True),
                fields=["provider_id"],
                name="email_provider_id",
            ),
        ),
    ]
