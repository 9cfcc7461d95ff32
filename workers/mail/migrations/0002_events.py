"""The trigger that writes an event for each end of an e-mail, whoever ends it, while events are kept."""

from django.db import migrations

# An end is a change to a state that is neither waiting nor on its way. Most statements change one e-mail.
ENDED = """
    CREATE FUNCTION weir_mail_tell_ended() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM weir_events_add(
            'email', NEW.id, NEW.state, NEW.kind, reference => NEW.key, ended_at => coalesce(NEW.ended_at, clock_timestamp())
        );
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_mail_ended AFTER UPDATE OF state ON weir_mail_email
    FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state NOT IN ('pending', 'claimed', 'sending'))
    EXECUTE FUNCTION weir_mail_tell_ended()
"""


class Migration(migrations.Migration):
    dependencies = [("weir_mail", "0001_initial"), ("weir_events", "0001_initial")]

    operations = [migrations.RunSQL(ENDED, "DROP FUNCTION weir_mail_tell_ended CASCADE")]
