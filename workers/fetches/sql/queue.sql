-- Read the next `most` fetches in the queue of a site, after the fetch `after`, which has this `priority` and
-- `not_before`. Read in the order of the index weir_fetch_queue (index order, docs/explanation/sql.md). Reads only.
SELECT *
FROM (
    (
        SELECT id, slot_id, site_id, CASE WHEN hop_url = '' THEN url ELSE hop_url END AS url, priority, not_before
        FROM weir_fetches_fetch
        WHERE site_id = %(site)s AND state = 'queued' AND priority = %(priority)s
            AND (not_before, id) > (%(not_before)s::timestamptz, %(after)s)
        ORDER BY priority DESC, not_before, id
        LIMIT %(most)s
    )
    UNION ALL
    (
        SELECT id, slot_id, site_id, CASE WHEN hop_url = '' THEN url ELSE hop_url END AS url, priority, not_before
        FROM weir_fetches_fetch
        WHERE site_id = %(site)s AND state = 'queued' AND priority < %(priority)s
        ORDER BY priority DESC, not_before, id
        LIMIT %(most)s
    )
) AS queue
ORDER BY priority DESC, not_before, id
LIMIT %(most)s
