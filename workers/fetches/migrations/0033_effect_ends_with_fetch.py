"""An effect whose fetch has ended, and has not settled it, ends with it: no fetcher begins it any more."""

from django.db import migrations

# A fetch can fail before a fetcher has its effect in hand: robots.txt disallows it, there is no access token, or its
# fetchers died too often. And a fetch that is to be made again with its key may be cancelled. This looks at the effect
# when the transaction commits, because fetchers write the effect's own outcome after that of the fetch. An effect that a
# mailer has, or that is due for one, is left alone: the mailer hands it over, or asks its probe.
END = """
    CREATE FUNCTION weir_fetches_end_effect() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE weir_effects_effect
        SET state = CASE WHEN ask_until IS NULL THEN NEW.state ELSE 'unknown' END,
            claim_token = CASE WHEN ask_until IS NOT NULL THEN coalesce(claim_token, gen_random_uuid()) END,
            claimed_until = NULL,
            begun_at = CASE WHEN ask_until IS NOT NULL THEN clock_timestamp() END,
            ended_at = clock_timestamp(),
            phase = CASE WHEN ask_until IS NULL THEN 'not begun' ELSE 'begun' END,
            last_reply = left(
                CASE WHEN NEW.state = 'failed' THEN 'Its fetch has failed: ' || NEW.error ELSE 'Its fetch was cancelled.' END
                    || CASE WHEN ask_until IS NOT NULL THEN ' Before that: ' || last_reply ELSE '' END,
                1000
            )
        WHERE id = NEW.effect_id AND state IN ('pending', 'claimed') AND next_attempt_at >= '8000-01-01 00:00:00+00';
        RETURN NULL;
    END
    $$;
    CREATE CONSTRAINT TRIGGER weir_fetches_ended_once AFTER UPDATE OF finished_at ON weir_fetches_fetch
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.effect_id IS NOT NULL AND NEW.state IN ('failed', 'cancelled') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION weir_fetches_end_effect()
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0032_index_of_awaited_effects")]

    operations = [migrations.RunSQL(END, "DROP FUNCTION weir_fetches_end_effect CASCADE")]
