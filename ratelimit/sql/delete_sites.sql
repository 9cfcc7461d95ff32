-- Delete these sites, but for those that are busy, or `in_use` by the caller's word; with `idle_for` (seconds), but also
-- for those that a person set, and those that were in use since. `hosts` and `ancestors` name, in pairs, the sites above
-- each. Executed under the exclusive lock of lock_site_names.sql, with the rows locked (hold_sites.sql) by an earlier
-- statement: whatever was reserved at the sites is seen.
-- Promises: no host is asked sooner for having lost its site. Its next site, at whatever rate it is created, may
-- start at once; so the last start that was promised here must be as long ago as the intervals of this site, of new
-- sites (`default_interval`) and of the covering site above. What is recalled must be relied on by no holder.
-- What is committed later with the site's id finds no site, so that it cannot start: the row of the deleted site lets
-- sweep find it (late_fetches.sql).
-- Returns each site: why it stays (NULL: it was deleted), and how many seconds its clock keeps it.
--
-- above   the interval of the covering sites above each
-- timed   the sites, with the clock, read under the locks (locked clock)
-- judged  why each stays
WITH above AS MATERIALIZED (
    SELECT pair.host, max(site.effective_interval) AS effective_interval
    FROM unnest(%(hosts)s::text[], %(ancestors)s::text[]) AS pair (host, ancestor)
    CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
        SELECT effective_interval, covers_subdomains FROM weir_ratelimit_site WHERE name = pair.ancestor OFFSET 0
    ) AS site
    WHERE site.covers_subdomains
    GROUP BY pair.host
), timed AS MATERIALIZED (
    SELECT
        site.*,
        clock_timestamp() AS now,
        greatest(next_start, split_until) AS last_start,
        greatest(next_start, split_until)
            + greatest(site.effective_interval, %(default_interval)s, above.effective_interval) AS free_at
    FROM weir_ratelimit_site AS site
    LEFT JOIN above ON above.host = site.name
    WHERE site.id = ANY(%(sites)s::bigint[])
), judged AS MATERIALIZED (
    SELECT
        id, name, last_start,
        extract(epoch FROM free_at - now)::float8 AS free_in_s,
        CASE
            WHEN id = ANY(%(in_use)s::bigint[]) THEN 'in use'
            WHEN paused_until > now THEN 'paused'
            WHEN backed_off_until > now THEN 'backed off'
            WHEN has_strays THEN 'split'
            WHEN recalled_at > now - make_interval(secs => %(confirmed_for)s::float8) THEN 'recalled'
            WHEN free_at > now THEN 'clock'
            WHEN is_kept AND %(idle_for)s::float8 IS NOT NULL THEN 'kept'
            WHEN greatest(created_at, last_start) > now - make_interval(secs => %(idle_for)s::float8) THEN 'used'
        END AS busy
    FROM timed
), notes AS (
    INSERT INTO weir_ratelimit_deletedsite (site_id, name, last_start, deleted_at)
    SELECT id, name, last_start, clock_timestamp() FROM judged WHERE busy IS NULL
), gone AS (
    DELETE FROM weir_ratelimit_site WHERE id = ANY(ARRAY(SELECT id FROM judged WHERE busy IS NULL))
)
SELECT id, name, busy, free_in_s FROM judged ORDER BY id
