-- Return the recalls of the last `window` seconds, as (site, its last void slot, NULL), and the slots that were passed
-- on to another fetch, as (site, NULL, slot). One more row has the site 0, which does not exist: this row says whether
-- the database is a standby, which may be behind its primary. Mostly it is the only row. Reads only.
-- statement_timestamp() has one value in a statement, so that the indexes are used (one clock).
SELECT
    0::bigint AS site_id, statement_timestamp() AS at, NULL::bigint AS last_slot, NULL::bigint AS passed_on,
    pg_is_in_recovery() AS is_standby
WHERE (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
UNION ALL
SELECT id, recalled_at, recalled_slot, NULL, false
FROM weir_ratelimit_site
WHERE recalled_at > statement_timestamp() - make_interval(secs => %(window)s::float8)
UNION ALL
SELECT site_id, passed_on_at, NULL, id, false
FROM weir_ratelimit_slot
WHERE passed_on_at > statement_timestamp() - make_interval(secs => %(window)s::float8)
