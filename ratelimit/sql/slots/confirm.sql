-- Return those of the slots that no recall has made void; none on a standby, which may not know of a recall yet. Reads
-- only.
SELECT slot.id
FROM weir_ratelimit_slot AS slot
JOIN weir_ratelimit_site AS site ON site.id = slot.site_id
WHERE slot.id = ANY(%(slots)s) AND slot.id > site.recalled_slot AND NOT pg_is_in_recovery()
    AND (SELECT weir_timeline_is_known(%(known_number)s::bigint, %(clock)s::tstzrange))  -- gate
