"""What a read mark does not cover, stated once: several statements read these rows."""

from django.db import migrations

from weir.notifications import user_keys

# A user's unread notifications that no read mark covers, found without the others by the index on changed_xid ("unseen
# changes" in docs/explanation/sql.md). PostgreSQL puts the query in its place. Its body is a text, which names its tables
# when it is called: so columns of users' keys may still get another type.
UNCOVERED = """
    CREATE FUNCTION weir_notifications_uncovered(whose user_key)
    RETURNS TABLE (id bigint, kind varchar, changed_xid xid8) LANGUAGE sql STABLE PARALLEL SAFE AS $$
        SELECT row.id, row.kind, row.changed_xid
        FROM weir_notifications_notification AS row
        LEFT JOIN weir_notifications_readmark AS mark ON mark.user_id = whose
        WHERE row.user_id = whose AND row.read_at IS NULL
            AND row.changed_xid >= (
                SELECT coalesce(max(pg_snapshot_xmin(snapshot)), '0'::xid8)
                FROM weir_notifications_readmark
                WHERE user_id = whose AND pg_snapshot_xmin(snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
            )
            AND weir_notifications_covers(
                mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid
            ) IS NOT TRUE
    $$
""".replace("user_key", user_keys.kind().column)


class Migration(migrations.Migration):
    dependencies = [("weir_notifications", "0001_initial")]

    operations = [migrations.RunSQL(UNCOVERED, "DROP FUNCTION weir_notifications_uncovered")]
