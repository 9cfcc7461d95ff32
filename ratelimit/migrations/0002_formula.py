"""The arithmetic of starts, stated once: the functions that all statements compute with."""

from django.db import migrations

FUNCTIONS = {
    # How far before its arrival a start may lie, as a burst lets it: GCRA's tolerance.
    "weir_ratelimit_tolerance(burst integer, shortest interval)": """
        RETURNS interval LANGUAGE sql IMMUTABLE RETURN (burst - 1) * shortest
    """,
    # How long the site belongs to the holder of `count` starts, from the arrival of the first one. An interval after
    # that, the next reservation's first start arrives.
    "weir_ratelimit_run_length(count bigint, spacing interval, grace interval)": """
        RETURNS interval LANGUAGE sql IMMUTABLE RETURN (count - 1) * spacing + grace
    """,
    # When the start of this place in a run is, from 0 on.
    "weir_ratelimit_start(place bigint, arrival timestamptz, soonest timestamptz, spacing interval, tolerance interval)": """
        RETURNS timestamptz LANGUAGE sql STABLE RETURN greatest(soonest, arrival + place * spacing - tolerance)
    """,
    # How many starts, this far apart, lie within this time after the first one, which is one of them.
    "weir_ratelimit_room(ahead interval, spacing interval)": """
        RETURNS numeric LANGUAGE sql IMMUTABLE RETURN 1 + floor(extract(epoch FROM ahead) / extract(epoch FROM spacing))
    """,
    # Of a site whose settings do not say it: 2.5 % of the interval, and 25 to 250 ms.
    "weir_ratelimit_grace(shortest interval)": """
        RETURNS interval LANGUAGE sql IMMUTABLE
        RETURN least(greatest(shortest * 0.025, interval '25 milliseconds'), interval '250 milliseconds')
    """,
    # Between two starts of a run: 1 % more than the interval, so that a holder that a timer made late can catch up.
    "weir_ratelimit_spacing(shortest interval)": """
        RETURNS interval LANGUAGE sql IMMUTABLE RETURN shortest * 1.01
    """,
}


class Migration(migrations.Migration):
    dependencies = [("weir_ratelimit", "0001_initial")]

    # PostgreSQL inlines all of them: they cost a plan some microseconds, and its execution nothing.
    operations = [
        migrations.RunSQL(f"CREATE FUNCTION {signature} {body}", f"DROP FUNCTION {signature.partition('(')[0]}")
        for signature, body in FUNCTIONS.items()
    ]
