-- Count the queued fetches of each site, and its starts that were used in the last `lately` seconds. Reads only.
-- At most `most_queued` queued fetches are counted, by the index fetch_queue, and the newest `most_slots` slots (index
-- order, docs/explanation/sql.md). `is_whole` says whether these were all.
WITH queue AS MATERIALIZED (
    SELECT site_id, count(*) AS queued
    FROM (
        SELECT site_id
        FROM fetches_fetch
        WHERE state = 'queued'
        ORDER BY site_id, priority DESC, not_before, id
        LIMIT %(most_queued)s
    ) AS queue
    GROUP BY site_id
), slot AS MATERIALIZED (
    SELECT site_id, count(*) AS started
    FROM (SELECT * FROM ratelimit_slot ORDER BY id DESC LIMIT %(most_slots)s) AS newest
    WHERE finished_at IS NOT NULL
        AND start_time BETWEEN statement_timestamp() - make_interval(secs => %(lately)s::float8) AND statement_timestamp()
    GROUP BY site_id
)
SELECT
    coalesce(queue.site_id, slot.site_id) AS site_id, coalesce(queued, 0) AS queued, coalesce(started, 0) AS started,
    (SELECT sum(queued) FROM queue) < %(most_queued)s AS is_whole
FROM queue
FULL JOIN slot ON slot.site_id = queue.site_id
