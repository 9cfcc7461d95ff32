-- Take the fetches of one message, each once: reserved -> running, with a lease that outlasts the slot and the
-- deadlines. Those whose run is over, or whose lane was paused or backed off since, go back to the queue instead (no
-- attempt is counted). A message that comes twice, or late, claims nothing: it waits, in the order of the ids, until
-- the other has claimed all, as two holders of one run would keep the interval each to itself only. For the same reason a
-- fetch that was taken back and booked again (its slot is newer than the message) is left to the newer message.
WITH named AS MATERIALIZED (
    SELECT
        job.id, job.slot_id, job.site_id,
        slot.start_time, slot.use_until,
        site."interval", site.burst,
        slot.use_until > clock_timestamp()
            AND coalesce(slot.start_time >= greatest(site.paused_until, site.backed_off_until), true) AS usable
    FROM fetches_fetch AS job
    JOIN ratelimit_slot AS slot ON slot.id = job.slot_id
    JOIN ratelimit_site AS site ON site.id = job.site_id
    WHERE job.id = ANY(%(fetches)s) AND job.state = 'reserved' AND job.slot_id <= %(newest_slot)s
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
        job.redirects, job.attempts, job.max_attempts, job.site_id, job.is_robots,
        NOT job.is_robots AND %(obey)s::bool AS obeys_robots,
        named.slot_id, named.start_time, named.use_until, named."interval", named.burst, named.usable
)
SELECT moved.*, extract(epoch FROM "interval")::float8 AS interval_s
FROM moved
ORDER BY start_time, slot_id
