-- Give the free slots of one run back before their time, and set the site's clock back to `after` seconds from now,
-- when the interval after the run's last start is over. The holder of the run starts nothing in it any more.
-- Promises: no start is granted twice. The clock is not set if something was reserved behind the run, or if the run was
-- recalled, because a recall may have changed the clock together with the rate. The clock is never set forward. `after`
-- was computed before the statement was sent, but counts from a later time, at which the clock is read (safe duration)
-- under the lock of the site's row (locked clock).
--
-- run       the run, and its site
-- moved     the site, its clock set back
-- gone      a slot that was reserved alone, deleted if the clock was set back: otherwise it could be taken
--           (take_given_back.sql), although the next reservation gets the same time
-- released  the slots, given back if none was deleted (site first)
WITH run AS MATERIALIZED (
    SELECT site_id, min(id) AS first_slot, max(use_until) AS use_until FROM weir_ratelimit_slot
    WHERE id = ANY(%(slots)s) AND released_at IS NULL AND finished_at IS NULL
    GROUP BY site_id
), moved AS (
    UPDATE weir_ratelimit_site AS site
    SET next_start = least(site.next_start, clock_timestamp() + make_interval(secs => %(after)s::float8))
    FROM run
    WHERE site.ctid = ANY(ARRAY[  -- newest version: the one that is locked, and the one that is seen
        (
            SELECT ctid FROM weir_ratelimit_site
            WHERE (id, name) >= ((SELECT site_id FROM run), '') AND id <= (SELECT site_id FROM run)
            ORDER BY id DESC
            LIMIT 1
            FOR NO KEY UPDATE
        ),
        (
            SELECT ctid FROM weir_ratelimit_site
            WHERE (id, name) >= ((SELECT site_id FROM run), '') AND id <= (SELECT site_id FROM run)
            ORDER BY id DESC
            LIMIT 1
        )
    ])
        AND site.next_start = weir_ratelimit_next_start(run.use_until, site.effective_interval)
        AND run.first_slot > site.recalled_slot
    RETURNING site.id
), gone AS (
    DELETE FROM weir_ratelimit_slot
    WHERE site_id = ANY(ARRAY(SELECT id FROM moved))  -- after the site
        AND id = ANY(%(slots)s) AND finished_at IS NULL AND released_at IS NULL AND run_size = 1
    RETURNING id
)
UPDATE weir_ratelimit_slot
SET released_at = clock_timestamp()
WHERE (SELECT count(*) FROM gone) = 0
    AND id = ANY(%(slots)s) AND finished_at IS NULL AND released_at IS NULL
RETURNING id
