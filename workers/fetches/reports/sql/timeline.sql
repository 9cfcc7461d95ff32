-- List the slots of `site` that began less than `past` seconds ago, or begin within `ahead` seconds: of more than `most`,
-- those nearest to now, and one more. Run after by_index.sql. Reads only: slots by the block range index of their starts,
-- so the slots of other sites in that period are passed over. An outcome must have come `hold` seconds after the end of
-- a slot's run.
-- The fetch of a slot, and how late it was, is known while a fetcher holds it (index fetch_of_slot), and of those among
-- the newest `newest` of all fetches that ended.
--
-- site   its last recall
-- near   the slots
-- ended  the fetches of the site among the newest that ended
WITH site AS MATERIALIZED (
    SELECT recalled_slot, recalled_at FROM ratelimit_site WHERE id = %(site)s
), near AS MATERIALIZED (
    SELECT
        slot.id, start_time, use_until, run_size,
        ratelimit_slot_fate(
            slot, (SELECT recalled_slot FROM site), (SELECT recalled_at FROM site),
            slot.use_until + make_interval(secs => %(hold)s::float8), statement_timestamp()
        ) AS fate
    FROM ratelimit_slot AS slot
    WHERE site_id = %(site)s
        AND start_time >= statement_timestamp() - make_interval(secs => %(past)s::float8)
        AND start_time <= statement_timestamp() + make_interval(secs => %(ahead)s::float8)
    ORDER BY abs(extract(epoch FROM start_time - statement_timestamp())), id
    LIMIT %(most)s + 1
), ended AS MATERIALIZED (
    SELECT id, slot_id, lateness_ms
    FROM (
        SELECT id, site_id, slot_id, lateness_ms
        FROM fetches_fetch
        WHERE finished_at BETWEEN statement_timestamp() - make_interval(secs => %(past)s::float8) AND 'infinity'
        ORDER BY finished_at DESC
        LIMIT %(newest)s
    ) AS newest
    WHERE site_id = %(site)s AND slot_id IS NOT NULL
)
SELECT
    near.id,
    extract(epoch FROM start_time - statement_timestamp())::float8 AS start_in_s,
    fate, ended.lateness_ms, coalesce(held.id, ended.id) AS fetch_id,
    min(near.id) OVER (PARTITION BY use_until) AS run_id, run_size
FROM near
LEFT JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
    SELECT id FROM fetches_fetch WHERE slot_id = near.id AND lease_until IS NOT NULL OFFSET 0
) AS held ON true
LEFT JOIN ended ON ended.slot_id = near.id
ORDER BY start_time, near.id
