-- Take the fetches of one message's slots, each once: reserved -> running, with a lease that outlasts the slot and the
-- deadlines. Those whose run is over, or was recalled since, go back to the queue instead (no attempt is counted).
-- A message that comes twice, or late, claims nothing: it waits, in the order of the ids, until the other has claimed
-- all, as two holders of one run would keep the interval each to itself only; and a fetch that was taken back and booked
-- again has another slot.
-- A fetch that revalidates comes with the validators of the last good result of the same URL.
WITH named AS MATERIALIZED (
    SELECT
        job.id, job.slot_id, job.site_id,
        slot.start_time, slot.use_until, slot.at_once,
        site.name AS site, site.effective_interval, site.burst,
        coalesce(site.obeys_robots, %(obey)s::bool) AS obeys_robots,
        slot.use_until > clock_timestamp() AND slot.id > site.recalled_slot AS usable
    FROM fetches_fetch AS job
    JOIN ratelimit_slot AS slot ON slot.id = job.slot_id
    CROSS JOIN LATERAL (  -- by id, one by one, whatever the statistics say
        SELECT name, effective_interval, burst, recalled_slot, obeys_robots
        FROM ratelimit_site
        WHERE id = job.site_id
        OFFSET 0
    ) AS site
    WHERE job.slot_id = ANY(%(slots)s) AND job.state = 'reserved'
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
), given_back AS (
    UPDATE ratelimit_slot SET released_at = clock_timestamp()
    FROM named
    WHERE ratelimit_slot.id = named.slot_id AND NOT named.usable AND released_at IS NULL AND finished_at IS NULL
), moved AS (
    UPDATE fetches_fetch AS job
    SET state = CASE WHEN named.usable THEN 'running' ELSE 'queued' END,
        slot_id = CASE WHEN named.usable THEN job.slot_id END,
        lease_until = CASE WHEN named.usable THEN named.use_until + make_interval(secs => %(lease)s::float8) END
    FROM named
    WHERE job.id = named.id
    RETURNING
        job.id, CASE WHEN job.hop_url = '' THEN job.url ELSE job.hop_url END AS url,
        job.redirects, job.attempts, job.max_attempts, job.revalidate, job.is_robots,
        named.slot_id, named.start_time, named.use_until, named.at_once, named.site_id, named.site,
        named.effective_interval, named.burst, named.usable,
        NOT job.is_robots AND named.obeys_robots AS obeys_robots
)
SELECT
    moved.*,
    extract(epoch FROM effective_interval)::float8 AS interval_s,
    good.id AS good_id, good.etag, good.last_modified
FROM moved
LEFT JOIN LATERAL (
    SELECT id, etag, last_modified
    FROM fetches_fetch AS result
    WHERE moved.revalidate AND md5(result.hop_url) = md5(moved.url) AND result.hop_url = moved.url
        AND result.state = 'done' AND result.status_code = 200 AND (result.etag <> '' OR result.last_modified <> '')
        AND NOT result.is_robots  -- which has no body
    ORDER BY result.finished_at DESC
    LIMIT 1
) AS good ON true
ORDER BY start_time, slot_id
