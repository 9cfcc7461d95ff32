-- Delete one short batch of the minutes that began more than `older_than` seconds ago, the oldest first.
WITH gone AS (
    DELETE FROM weir_history_minute
    WHERE minute = ANY(ARRAY(
        SELECT minute FROM weir_history_minute
        WHERE minute < statement_timestamp() - make_interval(secs => %(older_than)s::float8)
        ORDER BY minute
        LIMIT %(batch)s
    ))
    RETURNING 1
)
SELECT count(*) AS deleted FROM gone
