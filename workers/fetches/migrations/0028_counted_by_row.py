"""What updates change of batches is noted fetch by fetch, so that statements which end no fetch pay nothing for it.

A trigger with transition tables has PostgreSQL keep two copies of each row that a statement changes, of a batch or not.
A trigger for each row is not called where the statement sets none of the trigger's columns: dispatch and claim do not.
"""

from django.db import migrations

# weir_fetches_note_move appends what a row changes to a setting of the transaction: one entry for each batch and state.
# weir_fetches_count_noted, which PostgreSQL calls after the rows of the statement, adds them up. An entry copies those
# before it, so they are added up after a few kilobytes, too. If the statement is rolled back, so is the setting.
FUNCTIONS = """
    CREATE FUNCTION weir_fetches_add_up(noted text) RETURNS void LANGUAGE sql AS $$
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
                SELECT
                    split_part(entry, ' ', 1)::bigint AS batch_id, split_part(entry, ' ', 2) AS state,
                    split_part(entry, ' ', 3)::integer AS fetches
                FROM unnest(string_to_array(rtrim(noted, ','), ',')) AS entry
            ) AS moved
            GROUP BY batch_id
        ) AS change
        WHERE (unfinished, done, failed, cancelled) <> (0, 0, 0, 0)
    $$;
    CREATE FUNCTION weir_fetches_note_move() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        noted text := coalesce(current_setting('weir.moved_in_batches', true), '');
    BEGIN
        IF length(noted) > 4000 THEN
            PERFORM weir_fetches_add_up(noted);
            noted := '';
        END IF;
        noted := noted
            || coalesce(OLD.batch_id || ' ' || OLD.state || ' -1,', '')
            || coalesce(NEW.batch_id || ' ' || NEW.state || ' 1,', '');
        PERFORM set_config('weir.moved_in_batches', noted, true);
        RETURN NULL;
    END
    $$;
    CREATE FUNCTION weir_fetches_count_noted() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        noted text := current_setting('weir.moved_in_batches', true);
    BEGIN
        IF noted <> '' THEN
            PERFORM set_config('weir.moved_in_batches', '', true), weir_fetches_add_up(noted);
        END IF;
        RETURN NULL;
    END
    $$
"""
# By the constraint weir_fetch_final_has_finished_at, a statement that ends a fetch, or queues an ended one again, sets
# `finished_at`. Only SQL by hand makes another end of an end. Of the two triggers, one at most is called for a row.
# One statement replaces the trigger, so no move is missed. No trigger calls weir_fetches_count_moved any more.
TRIGGERS = """
    CREATE OR REPLACE TRIGGER weir_fetches_moved_in_batch AFTER UPDATE OF finished_at, batch_id ON weir_fetches_fetch
    FOR EACH ROW WHEN (
        (OLD.batch_id IS NOT NULL OR NEW.batch_id IS NOT NULL)
        AND (OLD.batch_id IS DISTINCT FROM NEW.batch_id OR (OLD.finished_at IS NULL) <> (NEW.finished_at IS NULL))
    )
    EXECUTE FUNCTION weir_fetches_note_move();
    CREATE TRIGGER weir_fetches_ended_otherwise AFTER UPDATE OF state ON weir_fetches_fetch
    FOR EACH ROW WHEN (
        OLD.finished_at IS NOT NULL AND NEW.finished_at IS NOT NULL AND OLD.state <> NEW.state
        AND OLD.batch_id = NEW.batch_id
    )
    EXECUTE FUNCTION weir_fetches_note_move();
    CREATE TRIGGER weir_fetches_moved_all AFTER UPDATE OF state, finished_at, batch_id ON weir_fetches_fetch
    FOR EACH STATEMENT EXECUTE FUNCTION weir_fetches_count_noted()
"""
BACK = """
    CREATE OR REPLACE TRIGGER weir_fetches_moved_in_batch AFTER UPDATE ON weir_fetches_fetch
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weir_fetches_count_moved();
    DROP FUNCTION weir_fetches_note_move CASCADE;
    DROP FUNCTION weir_fetches_count_noted CASCADE;
    DROP FUNCTION weir_fetches_add_up
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0027_index_of_endpoints")]

    operations = [migrations.RunSQL(f"{FUNCTIONS}; {TRIGGERS}", BACK)]
