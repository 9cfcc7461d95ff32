-- Return the recalls of the last `window` seconds: (site, NULL, the last slot that is void), and the slots that were
-- passed on to another fetch: (site, slot, NULL). Reads only, and mostly returns one row, which has no site: it tells
-- whether this database is a standby, which may be behind. statement_timestamp() is one value, so an index is used (one
-- clock).
SELECT
    NULL::bigint AS site_id, NULL::bigint AS slot_id, NULL::bigint AS recalled_slot, NULL::timestamptz AS at,
    pg_is_in_recovery() AS is_standby
WHERE (SELECT timeline_is_known(%(known_number)s::bigint, %(clock)s::tstzrange))  -- gate
UNION ALL
SELECT id, NULL, recalled_slot, recalled_at, NULL
FROM ratelimit_site
WHERE recalled_at > statement_timestamp() - make_interval(secs => %(window)s::float8)
UNION ALL
SELECT site_id, id, NULL, passed_on_at, NULL
FROM ratelimit_slot
WHERE passed_on_at > statement_timestamp() - make_interval(secs => %(window)s::float8)
