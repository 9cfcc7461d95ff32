-- Lock a fetch, if it has not ended. Executed before the statement that changes the fetch, which so has a newer
-- snapshot: if this statement waited for a reservation, the next one sees the slot.
SELECT id
FROM weir_fetches_fetch
WHERE id = %(fetch)s AND state IN ('queued', 'reserved', 'running')
FOR NO KEY UPDATE
