-- List the slots of `site` that began less than `past` seconds ago, or begin within `ahead` seconds. If there are more
-- than `most`, only the `most` + 1 slots nearest to now are listed. Run after planner.by_indexes. Reads only. The block
-- range index of slots' starts also finds the slots of other sites in that period, which are passed over. An outcome
-- must have come `hold` seconds after the end of a slot's run. No outcome comes for a slot that was passed on and that
-- no fetch has. A slot's fetch is known while the fetch is held (index weir_fetch_of_slot).
--
-- site  the last recall of the site
-- near  the slots
WITH site AS MATERIALIZED (
    SELECT recalled_slot, recalled_at FROM weir_ratelimit_site WHERE id = %(site)s
), near AS MATERIALIZED (
    SELECT slot
    FROM weir_ratelimit_slot AS slot
    WHERE site_id = %(site)s
        AND start_time >= statement_timestamp() - make_interval(secs => %(past)s::float8)
        AND start_time <= statement_timestamp() + make_interval(secs => %(ahead)s::float8)
    ORDER BY greatest(start_time - statement_timestamp(), statement_timestamp() - start_time), slot.id
    LIMIT %(most)s + 1
)
SELECT
    (slot).id,
    extract(epoch FROM (slot).start_time - statement_timestamp())::float8 AS start_in_s,
    weir_ratelimit_slot_fate(
        slot, (SELECT recalled_slot FROM site), (SELECT recalled_at FROM site),
        CASE
            WHEN held.id IS NULL AND (slot).passed_on_at IS NOT NULL THEN '-infinity'
            ELSE (slot).use_until + make_interval(secs => %(hold)s::float8)
        END,
        statement_timestamp()
    ) AS fate,
    held.id AS fetch_id,
    min((slot).id) OVER (PARTITION BY (slot).use_until) AS run_id, (slot).run_size
FROM near
LEFT JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
    SELECT id FROM weir_fetches_fetch WHERE slot_id = (near.slot).id AND lease_until IS NOT NULL OFFSET 0
) AS held ON true
ORDER BY (slot).start_time, (slot).id
