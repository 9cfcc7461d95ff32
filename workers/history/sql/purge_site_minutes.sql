-- Delete one short batch of the sites' minutes that began more than `older_than` seconds ago. Looks at the first
-- `batch` rows in the order of their ids, which is also the order of their minutes.
WITH gone AS (
    DELETE FROM weir_history_siteminute
    WHERE id = ANY(ARRAY(SELECT id FROM weir_history_siteminute ORDER BY id LIMIT %(batch)s))
        AND minute < statement_timestamp() - make_interval(secs => %(older_than)s::float8)
    RETURNING 1
)
SELECT count(*) AS deleted FROM gone
