from django.db import migrations, models


# Whether PostgreSQL's history is the one that is known, and has the number that the caller has seen. True on a standby,
# which grants nothing. A copy in another cluster may pass: readers of unread numbers know it by its keys in Redis.
IS_SAME = """
CREATE FUNCTION weir_timeline_is_same(known bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN pg_is_in_recovery() THEN true ELSE EXISTS (
        SELECT FROM weir_timeline_knowntimeline
        WHERE timeline = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AND number >= known AND closed_because = ''
    ) END
$$
"""
# The gate: true where it is, and PostgreSQL's clock says what the caller expects (NULL: anything). Otherwise it raises:
# PostgreSQL may have forgotten what it granted, or its clock was stepped, or the statement was on its way for too long.
IS_KNOWN = """
CREATE FUNCTION weir_timeline_is_known(known bigint, clock tstzrange) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT pg_is_in_recovery() AND NOT statement_timestamp() <@ clock THEN
        RAISE EXCEPTION USING
            ERRCODE = '57W02',
            MESSAGE = 'PostgreSQL''s clock does not say what was expected; it grants nothing until Weir has settled that';
    END IF;
    IF NOT weir_timeline_is_same(known) OR NOT pg_is_in_recovery() AND NOT EXISTS (
        SELECT FROM weir_timeline_knowntimeline
        WHERE cluster = (SELECT system_identifier FROM pg_control_system())
            || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = '57W01',
            MESSAGE = 'PostgreSQL may have forgotten what it granted; it grants nothing until Weir has recovered';
    END IF;
    RETURN true;
END
$$
"""
ROW = """
INSERT INTO weir_timeline_knowntimeline (id, timeline, cluster, number, numbered_at, is_synchronous, closed_because)
SELECT
    1, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    (SELECT system_identifier FROM pg_control_system())
        || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()),
    1, clock_timestamp(), false, ''
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="KnownTimeline",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                (
                    "timeline",
                    models.CharField(
                        help_text="of PostgreSQL's write-ahead log: another after each promotion", max_length=8
                    ),
                ),
                (
                    "cluster",
                    models.CharField(
                        help_text="system identifier and oid of the database: others in a copy", max_length=40
                    ),
                ),
                ("number", models.BigIntegerField(help_text="grows with time; processes and Redis remember it, too")),
                ("numbered_at", models.DateTimeField(help_text="when it last grew")),
                ("is_synchronous", models.BooleanField(help_text="commits waited for a standby then")),
                (
                    "closed_because",
                    models.TextField(
                        blank=True,
                        default="",
                        help_text="why nothing is granted until a recovery has ended; empty = it is",
                    ),
                ),
                (
                    "step_s",
                    models.FloatField(
                        help_text="by how much PostgreSQL's clock was stepped, until that is settled", null=True
                    ),
                ),
                (
                    "steps",
                    models.PositiveIntegerField(
                        db_default=0, default=0, help_text="of PostgreSQL's clock, that were settled"
                    ),
                ),
                ("lease_until", models.DateTimeField(help_text="until then no other process settles", null=True)),
                (
                    "lease_token",
                    models.UUIDField(help_text="who settles: another each time that the lease is taken", null=True),
                ),
                (
                    "went_back_at",
                    models.DateTimeField(help_text="when it last turned out that PostgreSQL had forgotten", null=True),
                ),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="weir_timeline_is_one_row")],
            },
        ),
        migrations.RunSQL(ROW, migrations.RunSQL.noop),
        migrations.RunSQL(IS_SAME, "DROP FUNCTION weir_timeline_is_same"),
        migrations.RunSQL(IS_KNOWN, "DROP FUNCTION weir_timeline_is_known"),
    ]
