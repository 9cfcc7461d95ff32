import django.db.models.functions.datetime
from django.conf import settings
from weir.conf import settings as weir_settings
from django.db import migrations, models

import weir.postgres.transactions
from weir.notifications import user_keys


# What users' keys are is chosen before this migration runs, and stays.
if weir_settings.WEIR_USER_FOREIGN_KEY:
    USER = ("user", user_keys.foreign_key())
    AFTER = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
else:
    USER = ("user_id", user_keys.field())
    AFTER = []


class Migration(migrations.Migration):
    initial = True

    dependencies = AFTER

    operations = [
        migrations.CreateModel(
            name="FlushedEpoch",
            fields=[
                ("epoch", models.BigIntegerField(primary_key=True, serialize=False)),
                ("users", models.PositiveIntegerField(help_text="whose numbers changed")),
                ("flushed_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "flushed epochs",
            },
        ),
        migrations.CreateModel(
            name="ForgottenUser",
            fields=[
                ("user_id", user_keys.field(primary_key=True, serialize=False)),
                ("forgotten_at", models.DateTimeField()),
                (
                    "until_xid",
                    weir.postgres.transactions.TransactionIdField(
                        help_text="notifications that earlier transactions wrote are deleted; empty = all that there are",
                        null=True,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Installation",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("name", models.UUIDField(help_text="random, written by the migration that creates the table")),
            ],
        ),
        migrations.CreateModel(
            name="Repair",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("repaired_at", models.DateTimeField()),
                ("users", models.PositiveIntegerField(help_text="whose numbers were wrong")),
                ("drift", models.BigIntegerField(help_text="by how much, in all: the sum without signs")),
            ],
        ),
        migrations.CreateModel(
            name="UnreadCount",
            fields=[
                ("user_id", user_keys.field(primary_key=True, serialize=False)),
                ("unread_count", models.BigIntegerField()),
                (
                    "epoch",
                    models.BigIntegerField(help_text="deltas of this epoch, and of all before it, are in unread_count"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Doubt",
            fields=[
                ("user_id", user_keys.field(primary_key=True, serialize=False)),
                ("noted_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["noted_at", "user_id"], name="weir_doubt_oldest")],
            },
        ),
        migrations.CreateModel(
            name="Excess",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user_id", user_keys.field()),
            ],
            options={
                "verbose_name_plural": "excesses",
                "indexes": [models.Index(fields=["user_id"], name="weir_excess_user")],
            },
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                USER,
                (
                    "kind",
                    models.CharField(help_text="what it is about, for code, such as order.shipped", max_length=100),
                ),
                ("title", models.TextField()),
                ("body", models.TextField(blank=True)),
                ("url", models.TextField(blank=True, help_text="where a click leads")),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("read_at", models.DateTimeField(blank=True, help_text="empty = unread", null=True)),
                (
                    "changed_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        help_text="when it last became unread or read, or got another owner",
                    ),
                ),
                (
                    "changed_xid",
                    weir.postgres.transactions.TransactionIdField(
                        db_default=weir.postgres.transactions.CurrentTransactionId(),
                        editable=False,
                        help_text="the transaction by which it last became unread or got another owner",
                    ),
                ),
                (
                    "dedupe_key",
                    models.CharField(
                        blank=True,
                        help_text="of a user's notifications one has it; empty = none",
                        max_length=255,
                        null=True,
                    ),
                ),
                (
                    "expires_at",
                    models.DateTimeField(
                        blank=True, help_text="when it is deleted; empty = never by itself", null=True
                    ),
                ),
            ],
            options={
                "base_manager_name": "objects",
                "indexes": [
                    models.Index(
                        models.F("user_id"),
                        models.OrderBy(models.F("id"), descending=True),
                        name="weir_notification_inbox",
                    ),
                    models.Index(
                        models.F("user_id"),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("read_at__isnull", True)),
                        name="weir_notification_unread",
                    ),
                    models.Index(
                        condition=models.Q(("read_at__isnull", True)),
                        fields=["user_id", "changed_xid"],
                        include=("id",),
                        name="weir_notification_unread_since",
                    ),
                    models.Index(fields=["changed_at", "id"], include=("user_id",), name="weir_notification_changes"),
                    models.Index(
                        condition=models.Q(("read_at__isnull", False)),
                        fields=["read_at"],
                        name="weir_notification_read",
                    ),
                    models.Index(
                        condition=models.Q(("expires_at__isnull", False)),
                        fields=["expires_at"],
                        name="weir_notification_expires",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("dedupe_key__isnull", False)),
                        fields=(user_keys.owner(), "dedupe_key"),
                        name="weir_notification_dedupe",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ReadMark",
            fields=[
                ("user_id", user_keys.field(primary_key=True, serialize=False)),
                ("up_to", models.BigIntegerField(help_text="the highest id that it covers")),
                ("snapshot", weir.postgres.transactions.SnapshotField(help_text="covers what was committed then")),
                (
                    "marked_by",
                    weir.postgres.transactions.TransactionIdField(help_text="covers nothing of this transaction"),
                ),
                ("marked_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["marked_at"], name="weir_read_mark_marked_at")],
            },
        ),
        migrations.CreateModel(
            name="Reconciliation",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                (
                    "incarnation",
                    models.CharField(blank=True, help_text="of the Redis that was last looked at", max_length=64),
                ),
                (
                    "server_run",
                    models.CharField(blank=True, help_text="its run: another one after each start", max_length=64),
                ),
                (
                    "trusted",
                    models.BooleanField(
                        default=False, help_text="its deltas are complete; readers count rows where not"
                    ),
                ),
                (
                    "changes_until",
                    models.DateTimeField(help_text="changes of notifications up to here have been looked at"),
                ),
                (
                    "changes_until_id",
                    models.BigIntegerField(
                        db_default=0, help_text="and of the changes of that very moment, notifications up to this one"
                    ),
                ),
                (
                    "scanned_until",
                    user_keys.field(
                        help_text="the current full scan has compared users up to this one; empty at its beginning",
                        null=True,
                    ),
                ),
                ("scan_began_at", models.DateTimeField(help_text="when the current full scan of all users began")),
                ("scan_took", models.DurationField(help_text="the last whole full scan", null=True)),
                ("scan_ended_at", models.DateTimeField(help_text="when that came to its end", null=True)),
                (
                    "repaired_users",
                    models.BigIntegerField(db_default=0, help_text="repaired since the first pass; only grows"),
                ),
                ("lease_until", models.DateTimeField(help_text="no other pass begins before")),
            ],
            options={
                "verbose_name_plural": "reconciliation",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="weir_reconciliation_is_one_row")
                ],
            },
        ),
        # Room for HOT updates: a flush changes a number without touching an index.
        migrations.RunSQL("ALTER TABLE weir_notifications_unreadcount SET (fillfactor = 70)", migrations.RunSQL.noop),
        migrations.RunSQL(
            "INSERT INTO weir_notifications_installation (id, name) VALUES (1, gen_random_uuid())",
            migrations.RunSQL.noop,
        ),
        # A name for what several statements ask; PostgreSQL puts the expression in its place.
        migrations.RunSQL(
            """
            CREATE FUNCTION weir_notifications_covers(
                up_to bigint, marked_by xid8, snapshot pg_snapshot, id bigint, changed_xid xid8
            ) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
                SELECT id <= up_to AND changed_xid <> marked_by AND pg_visible_in_snapshot(changed_xid, snapshot)
            $$
            """,
            "DROP FUNCTION weir_notifications_covers",
        ),
    ]
