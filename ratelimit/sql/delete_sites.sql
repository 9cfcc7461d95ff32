-- Delete these sites, except sites that are busy, or that the caller names as `in_use`. With `idle_for`, sites that a
-- person has set stay, too, and so do sites that were in use in the last `idle_for` seconds. `hosts` and `ancestors`
-- name, in pairs, the sites above each site. Executed under the exclusive lock of lock_site_names.sql, after an earlier
-- statement has locked the rows (hold_sites.sql): whatever was reserved at the sites is seen.
-- Promises: no host is asked sooner because its site was deleted. The host's next site, at whatever rate it is created,
-- may start immediately. So the last start that was promised here must be as long ago as the longest of three
-- intervals: that of this site, that of new sites (`default_interval`), and that of the covering site above. And no
-- holder may still rely on a recalled slot.
-- A fetch that is committed later with the site's id cannot start, because it finds no site. The row of the deleted
-- site lets sweep find such a fetch (late_fetches.sql).
-- Returns each site, with the reason why it stays (NULL: it was deleted), and for how many seconds its clock keeps it.
--
-- above   the longest interval of the covering sites above each site
-- timed   the sites, with the clock that was read under the locks (locked clock)
-- judged  the sites, with the reason why each stays
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
