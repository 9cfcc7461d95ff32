-- Delete one short batch of fetches that ended more than `older_than` seconds ago, with their bodies; but none whose
-- body a younger result refers to.
WITH old AS (
    SELECT id FROM fetches_fetch
    WHERE finished_at < clock_timestamp() - make_interval(secs => %(older_than)s::float8)
        AND NOT EXISTS (
            SELECT FROM fetches_fetch AS later
            WHERE later.unchanged_from_id = fetches_fetch.id
                AND later.finished_at >= clock_timestamp() - make_interval(secs => %(older_than)s::float8)
        )
    ORDER BY finished_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), bodies AS (
    DELETE FROM fetches_fetchbody USING old WHERE fetches_fetchbody.fetch_id = old.id
), gone AS (
    DELETE FROM fetches_fetch USING old WHERE fetches_fetch.id = old.id RETURNING 1
)
SELECT count(*) AS deleted FROM gone
