-- Read the next `most` sites of a list, after the place of a cursor. Reads only; rows are read in the order of an
-- index, which `way` selects. Run after planner.in_index_order. PostgreSQL plans the statement with the values, so that
-- one branch is left. Names are compared byte by byte, whatever the collation.
--
-- name      sites whose names begin with `lowest`, by name
-- suffix    sites whose reversed names begin with `lowest`, by reversed name
-- held      sites that have a `paused_until` or a `backed_off_until`, past or not, by name
-- refusals  sites that were backed off, those with most back-offs in a row first
-- ids       these sites, in this order
SELECT
    id, name, "interval", written_rate, effective_interval, spacing, burst, max_concurrency, covers_subdomains,
    obeys_robots, refusing, paused_until, backed_off_until, refused_until, backoff_error, backoff_reason, backoff_level,
    starts_out_of_time, out_of_time_at, next_start, due_at, held_state, held_state IS NOT NULL AND is_silent AS is_silent, now
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock  -- one clock
CROSS JOIN (
    (
        SELECT *
        FROM weir_ratelimit_site
        WHERE %(way)s = 'name' AND name ~>=~ %(lowest)s AND name ~<~ %(highest)s AND name ~>~ %(name)s
        ORDER BY name USING ~<~
        LIMIT %(most)s
    )
    UNION ALL
    (
        SELECT *
        FROM weir_ratelimit_site
        WHERE %(way)s = 'suffix' AND reverse(name) COLLATE "C" >= %(lowest)s AND reverse(name) COLLATE "C" < %(highest)s
            AND reverse(name) COLLATE "C" > reverse(%(name)s)
        ORDER BY reverse(name) COLLATE "C"
        LIMIT %(most)s
    )
    UNION ALL
    (
        SELECT *
        FROM weir_ratelimit_site
        WHERE %(way)s = 'held' AND (paused_until IS NOT NULL OR backed_off_until IS NOT NULL) AND name ~>~ %(name)s
        ORDER BY name USING ~<~
        LIMIT %(most)s
    )
    UNION ALL
    (
        SELECT *
        FROM (
            (
                SELECT *
                FROM weir_ratelimit_site
                WHERE %(way)s = 'refusals' AND backoff_level > 0 AND backoff_level = %(level)s AND name COLLATE "C" > %(name)s
                ORDER BY backoff_level DESC, name COLLATE "C"
                LIMIT %(most)s
            )
            UNION ALL
            (
                SELECT *
                FROM weir_ratelimit_site
                WHERE %(way)s = 'refusals' AND backoff_level > 0 AND backoff_level < %(level)s
                ORDER BY backoff_level DESC, name COLLATE "C"
                LIMIT %(most)s
            )
        ) AS backed_off
        ORDER BY backoff_level DESC, name COLLATE "C"
        LIMIT %(most)s
    )
    UNION ALL
    (
        SELECT site.*
        FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS wanted (id, place)
        CROSS JOIN LATERAL (SELECT * FROM weir_ratelimit_site WHERE %(way)s = 'ids' AND id = wanted.id OFFSET 0) AS site
        ORDER BY place
    )
) AS listed
CROSS JOIN LATERAL (
    SELECT weir_ratelimit_held_state(
        paused_until, backed_off_until, refused_until, backoff_error, is_silent, has_backlog OR due_at IS NOT NULL, now
    ) AS held_state
) AS held
