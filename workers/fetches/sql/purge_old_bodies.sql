-- Delete the bodies of one short batch of fetches that ended more than `older_than` seconds ago; the fetches stay. A body
-- is kept as long as a later result refers to it: the end of that one is looked at in its turn.
-- Returns how many fetches were looked at. The last end, which is stored, tells where the next batch begins.
--
-- clock   the time after which bodies are kept
-- ended   a batch of fetches in the order of their ends, all with the last end
-- bodies  the bodies that they had, or referred to, and that no younger result refers to
-- gone    these bodies, deleted
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() - make_interval(secs => %(older_than)s::float8) AS kept_since
), ended AS MATERIALIZED (
    SELECT finished_at, coalesce(unchanged_from_id, id) AS body_id FROM weir_fetches_fetch
    WHERE finished_at > coalesce((SELECT deleted_until FROM weir_fetches_bodykeeping), '-infinity')
        AND finished_at < (SELECT kept_since FROM clock)
    ORDER BY finished_at
    FETCH FIRST %(batch)s ROWS WITH TIES
), bodies AS MATERIALIZED (
    SELECT DISTINCT body_id
    FROM ended
    WHERE NOT EXISTS (
            SELECT FROM weir_fetches_fetch AS later
            WHERE later.unchanged_from_id = body_id AND later.finished_at >= (SELECT kept_since FROM clock)
        )
        AND NOT EXISTS (
            SELECT FROM weir_fetches_fetch AS first
            WHERE first.id = body_id AND first.finished_at >= (SELECT kept_since FROM clock)
        )
    ORDER BY body_id
), gone AS (
    UPDATE weir_fetches_fetchbody SET content = NULL, sha256 = NULL
    WHERE fetch_id = ANY(ARRAY(SELECT body_id FROM bodies)) AND (content IS NOT NULL OR sha256 IS NOT NULL)
), note AS (
    UPDATE weir_fetches_bodykeeping SET deleted_until = (SELECT max(finished_at) FROM ended)
    WHERE EXISTS (SELECT FROM ended)
)
SELECT count(*) AS looked_at FROM ended
