import django.contrib.postgres.indexes
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mail", "0012_ended_at")]

    operations = [
        AddIndexConcurrently(
            model_name="email",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["ended_at"], name="email_by_end"
            ),
        ),
    ]
