"""What other rooms may write of a site and of a slot: a view for each, and the function that says how far a clock moves."""

from django.db import migrations

FUNCTIONS = {
    # The site's clock behind a run, to whose holder the site belongs until `use_until`: the next start arrives an
    # interval later.
    "weir_ratelimit_next_start(use_until timestamptz, shortest interval)": """
        RETURNS timestamptz LANGUAGE sql STABLE RETURN use_until + shortest
    """,
}
# PostgreSQL replaces a view of one table by the table: plans, locks and HOT updates are those of the table.
VIEWS = {
    # Which sites dispatch looks at. Only workers/fetches has a use for it; it is in the site's row, as dispatch reads and
    # locks that.
    "weir_ratelimit_backlog": "SELECT id, has_backlog, due_at FROM weir_ratelimit_site",
    # What its holder did with a slot. The first three columns are there to find it.
    "weir_ratelimit_slot_use": """
        SELECT id, site_id, use_until, claimed_at, finished_at, released_at, passed_on_at FROM weir_ratelimit_slot
    """,
}


class Migration(migrations.Migration):
    dependencies = [("weir_ratelimit", "0002_formula")]

    operations = [
        *(
            migrations.RunSQL(f"CREATE FUNCTION {signature} {body}", f"DROP FUNCTION {signature.partition('(')[0]}")
            for signature, body in FUNCTIONS.items()
        ),
        *(migrations.RunSQL(f"CREATE VIEW {name} AS {body}", f"DROP VIEW {name}") for name, body in VIEWS.items()),
    ]
