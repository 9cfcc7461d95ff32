-- Mark the next tasks of these sites as published, for `delivery` seconds: at most `most` tasks of a site, `batch` in
-- all. Returns the tasks in their order, and whether Celery's `expires` has passed.
--
-- A task is marked if it would start within `lookahead` seconds, and within its own `max_wait`, if the tasks reserved
-- now, one after the other. The slots that are already reserved at the site come first, and then the tasks that were
-- published before and that no worker holds yet. At sites at which fetches wait, too, `beside_fetches` seconds replace
-- `lookahead`. Workers add `added_grace` seconds to the grace of a site, for their round trips.
--
-- Promises: first in, first out within a site. However many processes execute this at the same time, no task is
-- published twice, and no more tasks than there is room for: the process that locks the first task of a site has the
-- site, and the others skip the site (skip locked). The site's row is not locked. The statement makes one index
-- look-up for each site, whatever the number of its tasks.
--
-- timed      the clock (one clock)
-- opened     when a task could start at each site, according to the rules of ratelimit/sql/reserve.sql
-- roomy      the sites with room, and for how many tasks
-- held       the sites whose first task this transaction has locked
-- queued     the next tasks of these sites, locked
-- fitting    whether each of these tasks may wait until its start
-- chosen     the tasks to publish
-- published  the rows of these tasks, marked
WITH timed AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), opened AS MATERIALIZED (
    SELECT
        waiting.site, now, step, weir_ratelimit_tolerance(site.burst, site.effective_interval) AS tolerance,
        CASE WHEN site.has_backlog THEN %(beside_fetches)s ELSE %(lookahead)s END::float8 AS lookahead,
        greatest(now, site.paused_until, site.backed_off_until) AS soonest,
        greatest(now, site.paused_until, site.backed_off_until, site.next_start) + on_its_way.tasks * step AS arrival
    FROM unnest(%(sites)s::text[]) AS waiting (site)
    CROSS JOIN timed
    CROSS JOIN LATERAL (  -- newest version (docs/explanation/sql.md)
        SELECT * FROM weir_ratelimit_site
        WHERE (name, id) >= (waiting.site, 0) AND name <= waiting.site
        ORDER BY name DESC
        LIMIT 1
    ) AS site
    CROSS JOIN LATERAL (
        SELECT site.effective_interval + weir_ratelimit_run_length(  -- of one start
            1, site.spacing, site.effective_grace + make_interval(secs => %(added_grace)s::float8)
        ) AS step
    ) AS stepped
    CROSS JOIN LATERAL (
        SELECT count(*) AS tasks FROM weir_throttled_postponedtask AS task
        WHERE task.site = waiting.site AND task.published_at IS NOT NULL AND task.held_by IS NULL
    ) AS on_its_way
), roomy AS MATERIALIZED (
    SELECT
        opened.*,
        least(
            %(most)s::int, weir_ratelimit_room(now + make_interval(secs => lookahead) - arrival + tolerance, step)
        )::int AS room
    FROM opened
    WHERE weir_ratelimit_start(0, arrival, soonest, step, tolerance) <= now + make_interval(secs => lookahead)
), held AS MATERIALIZED (
    SELECT roomy.*
    FROM roomy
    CROSS JOIN LATERAL (
        SELECT id FROM weir_throttled_postponedtask AS task
        WHERE task.site = roomy.site AND task.published_at IS NULL AND task.not_before <= roomy.now
        ORDER BY task.not_before, task.id
        LIMIT 1
    ) AS first
    JOIN weir_throttled_postponedtask AS task ON task.id = first.id
    WHERE task.published_at IS NULL  -- second look
    FOR UPDATE OF task SKIP LOCKED
), queued AS MATERIALIZED (
    SELECT held.*, next.id, next.not_before, next.max_wait
    FROM held
    CROSS JOIN LATERAL (
        SELECT id, task.not_before, max_wait FROM weir_throttled_postponedtask AS task
        WHERE task.site = held.site AND task.published_at IS NULL AND task.not_before <= held.now
        ORDER BY task.not_before, task.id
        LIMIT held.room
        FOR UPDATE SKIP LOCKED
    ) AS next
), fitting AS (
    SELECT site, id, not_before, bool_and(
        weir_ratelimit_start(k, arrival, soonest, step, tolerance)
            <= now + make_interval(secs => least(max_wait, lookahead))
    ) OVER (PARTITION BY site ORDER BY k) AS fits
    FROM (
        SELECT queued.*, row_number() OVER (PARTITION BY site ORDER BY not_before, id) - 1 AS k FROM queued
    ) AS numbered
), chosen AS (
    SELECT id FROM fitting WHERE fits ORDER BY site, not_before, id LIMIT %(batch)s
), published AS (
    UPDATE weir_throttled_postponedtask AS task
    SET published_at = clock_timestamp(), publications = least(publications + 1, 32767),
        lease_until = clock_timestamp() + make_interval(secs => %(delivery)s::float8)
    WHERE task.id = ANY(ARRAY(SELECT id FROM chosen))  -- array look-up
    RETURNING task.id, task.site, task.not_before, task.signature, task.expires_at
)
SELECT id, signature, site, coalesce(expires_at < clock_timestamp(), false) AS is_expired
FROM published
ORDER BY site, not_before, id
