"""The event log, and the function by which the triggers of other rooms add to it."""

import django.db.models.functions.datetime
from django.db import migrations, models


# One row at a time: a trigger with transition tables would have PostgreSQL copy each row that any statement updates.
ADD = """
    CREATE FUNCTION weir_events_add(
        subject text, subject_id bigint, state text, kind text, reference text, ended_at timestamptz
    ) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM weir_events_eventlog;
        IF FOUND THEN
            INSERT INTO weir_events_newevent (subject, subject_id, state, kind, reference, at)
            VALUES (subject, subject_id, state, kind, reference, ended_at);
        END IF;
    END
    $$
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="NewEvent",
            fields=[
                (
                    "subject",
                    models.CharField(
                        choices=[("fetch", "Fetch"), ("email", "Email")], help_text="what has ended", max_length=10
                    ),
                ),
                ("subject_id", models.BigIntegerField(help_text="of the fetch or e-mail; the row may be gone")),
                ("state", models.CharField(help_text="in which it ended", max_length=10)),
                ("kind", models.CharField(db_default="", help_text="of an e-mail", max_length=100)),
                (
                    "reference",
                    models.CharField(
                        db_default="", help_text="the caller's: the fetch's reference, the e-mail's key", max_length=200
                    ),
                ),
                ("at", models.DateTimeField(help_text="when it ended")),
                ("id", models.BigAutoField(help_text="in no order of commits", primary_key=True, serialize=False)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "subject",
                    models.CharField(
                        choices=[("fetch", "Fetch"), ("email", "Email")], help_text="what has ended", max_length=10
                    ),
                ),
                ("subject_id", models.BigIntegerField(help_text="of the fetch or e-mail; the row may be gone")),
                ("state", models.CharField(help_text="in which it ended", max_length=10)),
                ("kind", models.CharField(db_default="", help_text="of an e-mail", max_length=100)),
                (
                    "reference",
                    models.CharField(
                        db_default="", help_text="the caller's: the fetch's reference, the e-mail's key", max_length=200
                    ),
                ),
                ("at", models.DateTimeField(help_text="when it ended")),
                (
                    "id",
                    models.BigAutoField(
                        help_text="tells events apart; the order of the log", primary_key=True, serialize=False
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["subject", "id"], name="weir_event_of_subject")],
            },
        ),
        migrations.CreateModel(
            name="EventLog",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                (
                    "key",
                    models.UUIDField(help_text="another one each time that events begin to be kept; cursors have it"),
                ),
                (
                    "since",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), help_text="when events began to be kept"
                    ),
                ),
                (
                    "purged_fetch_id",
                    models.BigIntegerField(
                        db_default=0, default=0, help_text="the highest id of a deleted event of a fetch"
                    ),
                ),
                (
                    "purged_email_id",
                    models.BigIntegerField(db_default=0, default=0, help_text="as above, of an e-mail"),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="weir_event_log_is_one_row")
                ],
            },
        ),
        migrations.RunSQL(ADD, "DROP FUNCTION weir_events_add"),
    ]
