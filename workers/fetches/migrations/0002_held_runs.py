"""The runs of a site that are not over, stated once: several reports read them."""

from django.db import migrations

# With the fetches that hold their slots: how many may be in flight at once, and in how many seconds each one starts.
HELD_RUNS = """
    CREATE FUNCTION weir_fetches_held_runs(of_site bigint, now timestamptz)
    RETURNS TABLE (at_once integer, starts_s float8[]) LANGUAGE sql STABLE PARALLEL SAFE AS $$
        SELECT
            coalesce(slot.at_once, slot.run_size)::integer,
            array_agg(extract(epoch FROM slot.start_time - now)::float8)
        FROM weir_fetches_fetch AS held
        CROSS JOIN LATERAL (SELECT * FROM weir_ratelimit_slot WHERE id = held.slot_id OFFSET 0) AS slot
        WHERE held.site_id = of_site AND held.state IN ('reserved', 'running')
        GROUP BY slot.use_until, slot.at_once, slot.run_size
    $$
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0001_initial"), ("weir_ratelimit", "0001_initial")]

    # PostgreSQL puts the query in its place.
    operations = [migrations.RunSQL(HELD_RUNS, "DROP FUNCTION weir_fetches_held_runs")]
