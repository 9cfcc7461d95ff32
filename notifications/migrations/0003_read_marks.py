from django.db import migrations, models

import weir.postgres.transactions
from weir.notifications import user_keys


class Migration(migrations.Migration):
    dependencies = [("notifications", "0002_scanned_until_null")]

    operations = [
        # A constant default rewrites no table; rows that exist were changed by transactions that have ended.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "ALTER TABLE notifications_notification ADD COLUMN changed_xid xid8 NOT NULL DEFAULT '0';"
                    "ALTER TABLE notifications_notification ALTER COLUMN changed_xid SET DEFAULT pg_current_xact_id()",
                    "ALTER TABLE notifications_notification DROP COLUMN changed_xid",
                ),
            ],
            state_operations=[
                migrations.AddField(
                    "notification",
                    "changed_xid",
                    weir.postgres.transactions.TransactionIdField(
                        db_default=weir.postgres.transactions.CurrentTransactionId(),
                        editable=False,
                        help_text="the transaction by which it last became unread or got another owner",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            "ReadMark",
            [
                ("user_id", user_keys.field(primary_key=True, serialize=False)),
                ("up_to", models.BigIntegerField(help_text="the highest id that it covers")),
                ("snapshot", weir.postgres.transactions.SnapshotField(help_text="covers what was committed then")),
                (
                    "marked_by",
                    weir.postgres.transactions.TransactionIdField(help_text="covers nothing of this transaction"),
                ),
                ("marked_at", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["marked_at"], name="read_mark_marked_at")]},
        ),
        # A name for what several statements ask; PostgreSQL puts the expression in its place.
        migrations.RunSQL(
            """
            CREATE FUNCTION notifications_covers(
                up_to bigint, marked_by xid8, snapshot pg_snapshot, id bigint, changed_xid xid8
            ) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
                SELECT id <= up_to AND changed_xid <> marked_by AND pg_visible_in_snapshot(changed_xid, snapshot)
            $$
            """,
            "DROP FUNCTION notifications_covers",
        ),
    ]
