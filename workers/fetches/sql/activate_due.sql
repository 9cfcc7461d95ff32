-- Activate the backlog flags of at most `most` sites at which a fetch has become due. Sites that another transaction
-- has locked are left to the next tick (skip locked, docs/explanation/sql.md). Returns one row: how many were
-- activated.
WITH changed AS (
    UPDATE weir_ratelimit_backlog
    SET has_backlog = true, due_at = NULL
    WHERE id = ANY(ARRAY(  -- array look-up
        SELECT id
        FROM weir_ratelimit_backlog
        WHERE due_at BETWEEN '-infinity' AND statement_timestamp()  -- few expected
        ORDER BY due_at  -- index order
        LIMIT %(most)s
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING id
)
SELECT count(*) AS activated FROM changed
