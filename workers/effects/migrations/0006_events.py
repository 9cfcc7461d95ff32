"""The trigger that writes an event for each end of an effect, whoever ends it, while events are kept."""

from django.db import migrations

# An end is a change to a state that is neither waiting nor in flight. Most statements change one effect.
ENDED = """
    CREATE FUNCTION weir_effects_tell_ended() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM weir_events_add(
            'effect', NEW.id, NEW.state, NEW.kind, reference => NEW.key, ended_at => coalesce(NEW.ended_at, clock_timestamp())
        );
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_effects_ended AFTER UPDATE OF state ON weir_effects_effect
    FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state NOT IN ('pending', 'claimed', 'begun'))
    EXECUTE FUNCTION weir_effects_tell_ended()
"""


class Migration(migrations.Migration):
    dependencies = [("weir_effects", "0005_weir_effect_ended"), ("weir_events", "0002_effects")]

    operations = [migrations.RunSQL(ENDED, "DROP FUNCTION weir_effects_tell_ended CASCADE")]
