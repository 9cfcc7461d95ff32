-- Delete one short batch of webhooks that were received more than `older_than` seconds ago; the bodies of their requests
-- go with them. Those that failed are kept as long as other fetches. One clock, array look-up (docs/explanation/sql.md).
--
-- clock     the time after which they are kept
-- endpoint  the endpoints that have webhooks, one index look-up each
-- old       a batch of older ones, locked
-- gone      the same, deleted
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() - make_interval(secs => %(older_than)s::float8) AS kept_since
), endpoint AS (
    (SELECT endpoint_id FROM weir_fetches_fetch WHERE endpoint_id IS NOT NULL ORDER BY endpoint_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT following.endpoint_id FROM weir_fetches_fetch AS following
        WHERE following.endpoint_id > endpoint.endpoint_id ORDER BY following.endpoint_id LIMIT 1
    )
    FROM endpoint WHERE endpoint.endpoint_id IS NOT NULL
), old AS MATERIALIZED (
    SELECT job.id
    FROM endpoint
    CROSS JOIN LATERAL (
        SELECT id FROM weir_fetches_fetch
        WHERE endpoint_id = endpoint.endpoint_id AND state = 'done'
            AND finished_at < (SELECT kept_since FROM clock)
        ORDER BY finished_at
        LIMIT %(batch)s
        FOR UPDATE SKIP LOCKED
    ) AS job
    LIMIT %(batch)s
), gone AS (
    DELETE FROM weir_fetches_fetch WHERE id = ANY(ARRAY(SELECT id FROM old)) RETURNING 1
)
SELECT count(*) AS deleted FROM gone
