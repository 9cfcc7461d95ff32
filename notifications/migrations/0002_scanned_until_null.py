from django.db import migrations

from weir.notifications import user_keys


class Migration(migrations.Migration):
    dependencies = [("notifications", "0001_initial")]

    operations = [
        migrations.AlterField(
            "reconciliation",
            "scanned_until",
            user_keys.field(null=True, help_text="the current full scan has compared users up to this one"),
        ),
        # Backwards, this comes first: after a full scan the row has a null. The next pass writes it anew.
        migrations.RunSQL(migrations.RunSQL.noop, "DELETE FROM notifications_reconciliation"),
    ]
