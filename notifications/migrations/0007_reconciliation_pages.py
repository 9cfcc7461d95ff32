from django.db import migrations, models

from weir.notifications import user_keys


class Migration(migrations.Migration):
    dependencies = [("notifications", "0006_installation")]

    operations = [
        migrations.AddField(
            model_name="reconciliation",
            name="changes_until_id",
            field=models.BigIntegerField(
                db_default=0, help_text="and of the changes of that very moment, notifications up to this one"
            ),
        ),
        migrations.AlterField(
            model_name="reconciliation",
            name="scanned_until",
            field=user_keys.field(
                null=True,
                help_text="the current full scan has compared users up to this one; empty at its beginning",
            ),
        ),
    ]
