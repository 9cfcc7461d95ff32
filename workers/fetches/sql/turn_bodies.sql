-- Record a turn of the purge of bodies. Returns the newest released body: later ones are left to the next turn.
WITH turn AS (
    INSERT INTO weir_fetches_bodykeeping (id, turned_at) VALUES (1, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET turned_at = EXCLUDED.turned_at
)
SELECT coalesce((SELECT id FROM weir_fetches_releasedbody ORDER BY id DESC LIMIT 1), 0) AS newest
