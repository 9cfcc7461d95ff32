"""A site with 100,000 queued fetches, of which 10 are due; dispatch looks for these each second."""

from pathlib import Path

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.scale import tables
from benchmarks.scale.explained import statement_takes

WAITING = int(100_000 * tables.SHARE)
DUE = 10
# The other sites are reserved for an hour, so that the statement reserves only at this site.
FILL = f"""
    UPDATE weir_ratelimit_site SET next_start = clock_timestamp() + interval '1 hour';
    INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
    VALUES ('%(name)s.bench', interval '10 ms', 1, true, false);
    INSERT INTO weir_fetches_fetch ({tables.COLUMNS}, not_before)
    SELECT 'http://waiting.bench/' || n, '', 0, currval('weir_ratelimit_site_id_seq'), 'queued', %(priority)s, 0, 5,
        '[]', '', '', '', '', now() + CASE WHEN n %% %(one_in)s = 0 THEN interval '0' ELSE interval '1 day' END
    FROM generate_series(1, %(fetches)s) AS n;
"""


def measure(plans: Path) -> list[Figure]:
    """Return the statement's time for a site without other fetches in its queue, with them, and in many priorities."""
    figures = []
    for name, priority, fetches in (
        ("dispatch_nothing_waits", "0", DUE),
        ("dispatch_many_wait", "n % 3", WAITING),
        ("dispatch_many_wait_in_1000_priorities", "n % 1000", WAITING),
    ):
        database.run_at_length(
            FILL % {"name": name, "priority": priority, "fetches": fetches, "one_in": fetches // DUE}
        )
        tables.vacuum()
        figures.append(statement_takes(plans, name, "weir.workers.fetches", "dispatch", {"after": 0}))
    return figures
