-- Read which fetches start next at `site`: the first `most` that have slots, and `most` queued ones. Of the first
-- `looked_at` fetches of the queue, these are the ones that are due, in the order of the queue, then the others in the
-- order in which they become due. At a site with shares, the due ones are in the order of their turns. Also read what
-- the caller needs to compute when the queued ones start. Reads only, by indexes (index order, docs/explanation/sql.md).
--
-- run     at a site with `max_concurrency`, the runs that still have held fetches, each with its starts
SELECT
    site.has_backlog, site.burst, site.max_concurrency, coalesce(site.paused_until >= %(forever)s, false) AS is_halted,
    held_state IS NOT NULL AND site.is_silent AS is_silent,
    extract(epoch FROM site.effective_interval)::float8 AS interval_s,
    extract(epoch FROM site.spacing)::float8 AS spacing_s,
    extract(epoch FROM site.effective_grace)::float8 AS grace_s,
    extract(epoch FROM site.next_start - now)::float8 AS reserved_for_s,
    coalesce(extract(epoch FROM greatest(paused_until, backed_off_until) - now), '-infinity')::float8 AS held_for_s,
    (
        SELECT coalesce(jsonb_agg(jsonb_build_object('at_once', at_once, 'starts_s', starts_s)), '[]')
        FROM weir_fetches_held_runs(site.id, now) AS run
        WHERE max_concurrency IS NOT NULL
    ) AS held_runs,
    (
        SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'url', url, 'in_s', in_s) ORDER BY in_s, id), '[]')
        FROM (
            SELECT held.id, held.url, extract(epoch FROM slot.start_time - now)::float8 AS in_s
            FROM weir_fetches_fetch AS held
            CROSS JOIN LATERAL (SELECT start_time FROM weir_ratelimit_slot WHERE id = held.slot_id OFFSET 0) AS slot
            WHERE held.site_id = site.id AND held.state IN ('reserved', 'running') AND slot.start_time > now
            ORDER BY slot.start_time, held.id
            LIMIT %(most)s
        ) AS reserved
    ) AS reserved,
    (
        SELECT coalesce(
            jsonb_agg(jsonb_build_object('id', id, 'url', url, 'in_s', in_s) ORDER BY in_s, is_robots DESC, place), '[]'
        )
        FROM (
            SELECT id, url, is_robots, place, greatest(0, extract(epoch FROM not_before - now))::float8 AS in_s
            FROM (
                SELECT *, row_number() OVER () AS place
                FROM (
                    SELECT job.*
                    FROM weir_fetches_in_turn(
                        site.id, %(most)s::int, now, site.weights, coalesce(site.turn_share, ''), site.turn_used
                    ) AS next
                    CROSS JOIN LATERAL (
                        SELECT id, url, is_robots, not_before FROM weir_fetches_fetch WHERE id = next.fetch_id OFFSET 0
                    ) AS job
                    WHERE site.turn_share IS NOT NULL
                    UNION ALL
                    SELECT *
                    FROM (
                        SELECT id, url, is_robots, not_before
                        FROM weir_fetches_fetch
                        WHERE site_id = site.id AND state = 'queued'
                            AND not_before < '8000-01-01 00:00:00+00'  -- or it waits for what became of its effect
                        ORDER BY priority DESC, not_before, id
                        LIMIT %(looked_at)s
                    ) AS by_age
                    WHERE site.turn_share IS NULL OR not_before > now
                ) AS first
            ) AS placed
            ORDER BY in_s, is_robots DESC, place
            LIMIT %(most)s
        ) AS queue
    ) AS queued
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock  -- one clock
CROSS JOIN LATERAL (SELECT * FROM weir_ratelimit_site WHERE id = %(site)s OFFSET 0) AS site
CROSS JOIN LATERAL (
    SELECT weir_ratelimit_held_state(
        paused_until, backed_off_until, refused_until, backoff_error, is_silent, has_backlog OR due_at IS NOT NULL, now
    ) AS held_state
) AS held
