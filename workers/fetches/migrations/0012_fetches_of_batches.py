"""The batch of a fetch, and the triggers that count what each statement changes of a batch, whoever executes it."""

import django.db.models.deletion
from django.db import migrations, models

# A statement that inserts no fetch of a batch pays next to nothing: `weir_fetches_note_batch` runs for fetches of batches
# only, and `weir_fetches_count_added` only after it.
ADDED = """
    CREATE FUNCTION weir_fetches_note_batch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('weir.adds_to_batch', 'on', true);
        RETURN NEW;
    END
    $$;
    CREATE FUNCTION weir_fetches_count_added() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('weir.adds_to_batch', '', true);
        INSERT INTO weir_fetches_batchchange (batch_id, unfinished, done, failed, cancelled)
        SELECT
            batch_id,
            count(*) FILTER (WHERE state IN ('queued', 'reserved', 'running')),
            count(*) FILTER (WHERE state = 'done'),
            count(*) FILTER (WHERE state = 'failed'),
            count(*) FILTER (WHERE state = 'cancelled')
        FROM added
        WHERE batch_id IS NOT NULL
        GROUP BY batch_id;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_adds_to_batch BEFORE INSERT ON weir_fetches_fetch FOR EACH ROW
    WHEN (NEW.batch_id IS NOT NULL) EXECUTE FUNCTION weir_fetches_note_batch();
    CREATE TRIGGER weir_fetches_added_to_batch AFTER INSERT ON weir_fetches_fetch REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT WHEN (current_setting('weir.adds_to_batch', true) = 'on')
    EXECUTE FUNCTION weir_fetches_count_added()
"""
MOVED = """
    CREATE FUNCTION weir_fetches_count_moved() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM new_rows WHERE batch_id IS NOT NULL LIMIT 1;
        IF NOT FOUND THEN
            PERFORM 1 FROM old_rows WHERE batch_id IS NOT NULL LIMIT 1;
            IF NOT FOUND THEN
                RETURN NULL;
            END IF;
        END IF;
        INSERT INTO weir_fetches_batchchange (batch_id, unfinished, done, failed, cancelled)
        SELECT *
        FROM (
            SELECT
                batch_id,
                coalesce(sum(fetches) FILTER (WHERE state IN ('queued', 'reserved', 'running')), 0) AS unfinished,
                coalesce(sum(fetches) FILTER (WHERE state = 'done'), 0) AS done,
                coalesce(sum(fetches) FILTER (WHERE state = 'failed'), 0) AS failed,
                coalesce(sum(fetches) FILTER (WHERE state = 'cancelled'), 0) AS cancelled
            FROM (
                SELECT batch_id, state, 1 AS fetches FROM new_rows
                UNION ALL
                SELECT batch_id, state, -1 FROM old_rows
            ) AS moved
            WHERE batch_id IS NOT NULL
            GROUP BY batch_id
        ) AS change
        WHERE (unfinished, done, failed, cancelled) <> (0, 0, 0, 0);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_moved_in_batch AFTER UPDATE ON weir_fetches_fetch
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weir_fetches_count_moved()
"""
# A fetch that is deleted after its end still counts: purge changes no number.
REMOVED = """
    CREATE FUNCTION weir_fetches_count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM removed WHERE batch_id IS NOT NULL LIMIT 1;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        INSERT INTO weir_fetches_batchchange (batch_id, unfinished, done, failed, cancelled)
        SELECT batch_id, -count(*), 0, 0, 0
        FROM removed
        WHERE batch_id IS NOT NULL AND state IN ('queued', 'reserved', 'running')
        GROUP BY batch_id;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_removed_of_batch AFTER DELETE ON weir_fetches_fetch REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION weir_fetches_count_removed()
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0011_batches")]

    operations = [
        migrations.AddField(
            "fetch",
            "batch",
            models.ForeignKey(
                db_constraint=False,
                db_index=False,
                help_text="in which it is counted",
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="fetches",
                to="weir_fetches.batch",
            ),
        ),
        migrations.RunSQL(
            ADDED, "DROP FUNCTION weir_fetches_note_batch CASCADE; DROP FUNCTION weir_fetches_count_added CASCADE"
        ),
        migrations.RunSQL(MOVED, "DROP FUNCTION weir_fetches_count_moved CASCADE"),
        migrations.RunSQL(REMOVED, "DROP FUNCTION weir_fetches_count_removed CASCADE"),
    ]
