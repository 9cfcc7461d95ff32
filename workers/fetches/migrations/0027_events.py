"""The triggers that write an event for each end of a fetch that was asked for, whoever ends it, while events are kept."""

from django.db import migrations

# An end is a change to a final state. What Weir itself asks for, as robots.txt, makes no event; nor does a webhook, which
# the column of the next migration tells: no events are kept before that.
ENDED = """
    CREATE FUNCTION weir_fetches_tell_ended() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM weir_events_eventlog;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        PERFORM 1 FROM new_rows WHERE finished_at IS NOT NULL LIMIT 1;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        PERFORM weir_events_add('fetch', ids, states, array_fill(''::text, ARRAY[cardinality(ids)]), named, ends)
        FROM (
            SELECT
                array_agg(job.id ORDER BY job.finished_at, job.id) AS ids,
                array_agg(job.state ORDER BY job.finished_at, job.id) AS states,
                array_agg(coalesce(job.reference, '') ORDER BY job.finished_at, job.id) AS named,
                array_agg(job.finished_at ORDER BY job.finished_at, job.id) AS ends
            FROM new_rows AS job JOIN old_rows AS before ON before.id = job.id
            WHERE job.finished_at IS NOT NULL AND job.state IN ('done', 'failed', 'cancelled')
                AND job.state <> before.state AND NOT job.is_robots AND job.token_client = ''
                AND job.endpoint_id IS NULL
        ) AS ended
        WHERE ids IS NOT NULL;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_ended AFTER UPDATE ON weir_fetches_fetch
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weir_fetches_tell_ended()
"""
# A text that is not a URL is stored as failed.
ADDED = """
    CREATE FUNCTION weir_fetches_tell_added() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM weir_events_eventlog;
        IF FOUND THEN
            PERFORM weir_events_add(
                'fetch', ARRAY[NEW.id], ARRAY[NEW.state::text], ARRAY[''], ARRAY[coalesce(NEW.reference, '')],
                ARRAY[NEW.finished_at]
            );
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_added_ended AFTER INSERT ON weir_fetches_fetch
    FOR EACH ROW WHEN (
        NEW.finished_at IS NOT NULL AND NEW.state IN ('done', 'failed', 'cancelled')
        AND NOT NEW.is_robots AND NEW.token_client = ''
    ) EXECUTE FUNCTION weir_fetches_tell_added()
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0026_index_of_references"), ("weir_events", "0001_initial")]

    operations = [
        migrations.RunSQL(ENDED, "DROP FUNCTION weir_fetches_tell_ended CASCADE"),
        migrations.RunSQL(ADDED, "DROP FUNCTION weir_fetches_tell_added CASCADE"),
    ]
