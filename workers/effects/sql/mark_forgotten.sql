-- Notes of up to `batch` effects of a user, whose ids are above `after`, that the user is to be forgotten. Returns the
-- highest of their ids; NULL after the last one.
WITH these AS MATERIALIZED (
    SELECT id, forgotten_at
    FROM weir_effects_effect
    WHERE user_key = %(user)s AND user_key <> '' AND id > %(after)s
    ORDER BY user_key, id
    LIMIT %(batch)s
    FOR NO KEY UPDATE
), marked AS (
    UPDATE weir_effects_effect
    SET forgotten_at = clock_timestamp()
    WHERE id = ANY (array(SELECT id FROM these WHERE forgotten_at IS NULL))
)
SELECT max(id) FROM these
