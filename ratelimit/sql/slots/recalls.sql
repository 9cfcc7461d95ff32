-- Return the recalls of the last `window` seconds: (site, NULL, the last slot that is void), and the slots that were
-- passed on to another fetch: (site, slot, NULL). Reads only, and mostly returns no row. statement_timestamp() is one
-- value, so an index is used (one clock).
SELECT id AS site_id, NULL::bigint AS slot_id, recalled_slot, recalled_at AS at
FROM ratelimit_site
WHERE recalled_at > statement_timestamp() - make_interval(secs => %(window)s::float8)
UNION ALL
SELECT site_id, id, NULL, passed_on_at
FROM ratelimit_slot
WHERE passed_on_at > statement_timestamp() - make_interval(secs => %(window)s::float8)
