"""Whether a site has answered since it was backed off, and the state of a site that is held, stated once for all readers."""

from django.db import migrations, models

# NULL: nothing holds the site. `is_wanted`: it has fetches to come.
# A site that is silent stays in the state of its last back-off while anything is to be fetched there, and for a minute
# after the back-off, in which its last fetch may be in flight.
HELD_STATE = """
    CREATE FUNCTION weir_ratelimit_held_state(
        paused_until timestamptz, backed_off_until timestamptz, refused_until timestamptz, backoff_error text,
        is_silent boolean, is_wanted boolean, now timestamptz
    ) RETURNS text LANGUAGE sql STABLE
    RETURN CASE
        WHEN paused_until > now THEN 'paused'
        WHEN backed_off_until > now AND backoff_error = '' AND refused_until IS NOT NULL THEN 'resting'
        WHEN backed_off_until > now OR is_silent AND (is_wanted OR backed_off_until > now - interval '1 minute') THEN
            CASE WHEN backoff_error = '' THEN 'backed off' ELSE 'unreachable' END
    END
"""


class Migration(migrations.Migration):
    dependencies = [("weir_ratelimit", "0003_doors")]

    operations = [
        migrations.AddField(
            model_name="site",
            name="is_silent",
            field=models.BooleanField(
                db_default=False,
                help_text="it has refused a fetch, or could not be reached, and has answered none since",
            ),
        ),
        # PostgreSQL inlines it.
        migrations.RunSQL(HELD_STATE, "DROP FUNCTION weir_ratelimit_held_state"),
    ]
