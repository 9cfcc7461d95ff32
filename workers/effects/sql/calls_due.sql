-- Returns whether calls of `on_done` are overdue, or kept and due again (on_done.py). On the form of the subqueries see
-- "First row" in docs/explanation/sql.md.
SELECT (
        SELECT id FROM weir_effects_effect
        WHERE
            state IN ('done', 'failed', 'cancelled', 'expired') AND NOT (on_done = '')
            AND (on_done_called_at IS NULL OR on_done_called_at < ended_at)
            AND ended_at < statement_timestamp() - '30 s'::interval
        ORDER BY ended_at
        LIMIT 1
    ) IS NOT NULL
    OR coalesce(
        (
            SELECT on_done_again_at FROM weir_effects_effect
            WHERE on_done_again_at IS NOT NULL
            ORDER BY on_done_again_at
            LIMIT 1
        ) <= statement_timestamp(),
        false
    ) AS is_due
