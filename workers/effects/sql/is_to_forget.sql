-- Returns whether there is an effect that is still to be forgotten (forget.sql).
SELECT (
    SELECT id FROM weir_effects_effect
    WHERE
        state IN ('done', 'failed', 'cancelled', 'expired') AND forgotten_at IS NOT NULL AND on_done_again_at IS NULL
        AND (NOT (user_key = '') OR forgotten_at < ended_at)
        AND (on_done = '' OR on_done_called_at >= ended_at)
    ORDER BY user_key, id
    LIMIT 1
) IS NOT NULL AS is_to_forget
