-- Record that the fetcher that holds this fetch has this fetch in hand, and no other. If the fetcher dies now, the loss
-- counts as an attempt of this fetch (sql/lost.sql). Returns the fetch, unless sweep took it back or it was cancelled
-- (fenced write). The mark is removed when an outcome of the fetch is stored (store.sql).
-- Promises: the lease lasts long enough for the result to be stored. If the lease was over, and a sweep had found the
-- fetch before it was in hand, that sweep leaves it alone: sweep stores a loss only if the lease is over at that
-- moment, too.
UPDATE weir_fetches_fetch
SET in_hand = true, lease_until = greatest(lease_until, clock_timestamp() + make_interval(secs => %(storing)s::float8))
WHERE id = %(fetch)s AND slot_id = %(slot)s AND finished_at IS NULL
RETURNING id
