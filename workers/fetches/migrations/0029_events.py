"""The triggers that write an event for each end of a fetch that was asked for, whoever ends it, while events are kept.

What Weir itself asks for, as robots.txt, makes no event; nor does a webhook. Triggers for each row are not called where
the statement does not set `finished_at`, as those of dispatch and claims (0028_counted_by_row.py).
"""

from django.db import migrations

# By the constraint weir_fetch_final_has_finished_at, a statement that ends a fetch sets `finished_at`. A text that is not
# a URL is stored as failed.
TRIGGERS = """
    CREATE FUNCTION weir_fetches_tell_ended() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM weir_events_add(
            'fetch', NEW.id, NEW.state, kind => '', reference => coalesce(NEW.reference, ''), ended_at => NEW.finished_at
        );
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_ended AFTER UPDATE OF finished_at ON weir_fetches_fetch
    FOR EACH ROW WHEN (
        NEW.finished_at IS NOT NULL AND NEW.state <> OLD.state
        AND NOT NEW.is_robots AND NEW.token_client = '' AND NEW.endpoint_id IS NULL
    ) EXECUTE FUNCTION weir_fetches_tell_ended();
    CREATE TRIGGER weir_fetches_added_ended AFTER INSERT ON weir_fetches_fetch
    FOR EACH ROW WHEN (
        NEW.finished_at IS NOT NULL AND NOT NEW.is_robots AND NEW.token_client = '' AND NEW.endpoint_id IS NULL
    ) EXECUTE FUNCTION weir_fetches_tell_ended()
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0028_counted_by_row"), ("weir_events", "0001_initial")]

    operations = [migrations.RunSQL(TRIGGERS, "DROP FUNCTION weir_fetches_tell_ended CASCADE")]
