-- Return those of the slots that no recall has made void. Reads only.
SELECT slot.id
FROM ratelimit_slot AS slot
JOIN ratelimit_site AS site ON site.id = slot.site_id
WHERE slot.id = ANY(%(slots)s) AND slot.id > site.recalled_slot
