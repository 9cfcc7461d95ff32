from django.db import migrations

from weir.postgres.transactions import TransactionIdField


class Migration(migrations.Migration):
    dependencies = [("notifications", "0013_excess")]

    operations = [
        migrations.AddField(
            model_name="forgottenuser",
            name="until_xid",
            field=TransactionIdField(
                null=True,
                help_text="notifications that earlier transactions wrote are deleted; empty = all that there are",
            ),
        ),
    ]
