-- Lock a fetch, if it has not ended. To be executed before the statement that changes it, which so has a newer snapshot:
-- where this waited for a reservation, that one sees the slot, too.
SELECT id
FROM weir_fetches_fetch
WHERE id = %(fetch)s AND state IN ('queued', 'reserved', 'running')
FOR NO KEY UPDATE
