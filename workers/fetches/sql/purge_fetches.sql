-- Delete one short batch of fetches that ended more than `older_than` seconds ago, with their bodies. A fetch is
-- kept as long as a result that is kept refers to its body. One clock, array look-up (docs/explanation/sql.md).
--
-- clock   the time after which results are kept
-- old     a batch of older fetches, locked
-- bodies  their bodies, deleted
-- gone    the fetches, deleted
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() - make_interval(secs => %(older_than)s::float8) AS kept_since
), old AS MATERIALIZED (
    SELECT id FROM weir_fetches_fetch
    WHERE finished_at < (SELECT kept_since FROM clock)
        AND NOT EXISTS (
            SELECT FROM weir_fetches_fetch AS later
            WHERE later.unchanged_from_id = weir_fetches_fetch.id AND later.finished_at >= (SELECT kept_since FROM clock)
        )
    ORDER BY finished_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), bodies AS (
    DELETE FROM weir_fetches_fetchbody WHERE fetch_id = ANY(ARRAY(SELECT id FROM old))
), gone AS (
    DELETE FROM weir_fetches_fetch WHERE id = ANY(ARRAY(SELECT id FROM old)) RETURNING 1
)
SELECT count(*) AS deleted FROM gone
