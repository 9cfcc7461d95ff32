-- Return the slots that no recall has made void. A standby returns none, because it may not know of a recall yet. Reads
-- only.
SELECT slot.id
FROM weir_ratelimit_slot AS slot
CROSS JOIN LATERAL (  -- newest version (docs/explanation/sql.md)
    SELECT recalled_slot FROM weir_ratelimit_site
    WHERE (id, name) >= (slot.site_id, '') AND id <= slot.site_id
    ORDER BY id DESC
    LIMIT 1
) AS site
WHERE slot.id = ANY(%(slots)s) AND slot.id > site.recalled_slot AND NOT pg_is_in_recovery()
    AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
