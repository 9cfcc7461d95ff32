-- Lock the batch of this name against purge, until the caller's transaction ends. Returns no row if there is none.
-- Callers do not wait for each other, nor does a fold for them: each only shares the key.
SELECT id, on_done, is_open, ended_at
FROM weir_fetches_batch
WHERE name = %(name)s
FOR KEY SHARE
