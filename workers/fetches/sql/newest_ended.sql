-- List the fetches of `site` that had a slot and ended less than `past` seconds ago. Only the `newest` fetches that
-- ended last, at any site, are looked at. Reads only, in the order of the index weir_fetch_finished.
SELECT slot_id, id AS fetch_id, lateness_ms
FROM (
    SELECT id, site_id, slot_id, lateness_ms
    FROM weir_fetches_fetch
    WHERE finished_at BETWEEN statement_timestamp() - make_interval(secs => %(past)s::float8) AND 'infinity'
    ORDER BY finished_at DESC
    LIMIT (SELECT %(newest)s::bigint)  -- unknown limit (docs/explanation/sql.md)
) AS newest
WHERE site_id = %(site)s AND slot_id IS NOT NULL
