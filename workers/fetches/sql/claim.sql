-- Take the fetches of one message, each once: reserved -> running, with a lease that outlasts the slot and the
-- deadlines. Those whose run is over, or whose lane was paused or backed off since, go back to the queue instead (no
-- attempt is counted). A message that comes twice, or late, claims nothing.
WITH named AS MATERIALIZED (
    SELECT
        fetch.id, fetch.slot_id, fetch.site_id,
        slot.start_time, slot.use_until,
        site."interval", site.burst,
        slot.use_until > clock_timestamp()
            AND coalesce(slot.start_time >= greatest(site.paused_until, site.backed_off_until), true) AS usable
    FROM fetches_fetch AS fetch
    JOIN ratelimit_slot AS slot ON slot.id = fetch.slot_id
    JOIN ratelimit_site AS site ON site.id = fetch.site_id
    WHERE fetch.id = ANY(%(fetches)s) AND fetch.state = 'reserved'
    FOR NO KEY UPDATE OF fetch SKIP LOCKED
), given_back AS (
    UPDATE ratelimit_slot SET released_at = clock_timestamp()
    FROM named
    WHERE ratelimit_slot.id = named.slot_id AND NOT named.usable AND released_at IS NULL AND finished_at IS NULL
), moved AS (
    UPDATE fetches_fetch AS fetch
    SET state = CASE WHEN named.usable THEN 'running' ELSE 'queued' END,
        slot_id = CASE WHEN named.usable THEN fetch.slot_id END,
        lease_until = CASE WHEN named.usable THEN named.use_until + make_interval(secs => %(lease)s::float8) END
    FROM named
    WHERE fetch.id = named.id
    RETURNING
        fetch.id, CASE WHEN fetch.hop_url = '' THEN fetch.url ELSE fetch.hop_url END AS url,
        fetch.redirects, fetch.attempts, fetch.max_attempts, fetch.site_id,
        named.slot_id, named.start_time, named.use_until, named."interval", named.burst, named.usable
)
SELECT moved.*, extract(epoch FROM "interval")::float8 AS interval_s
FROM moved
ORDER BY start_time, slot_id
