-- Record that the fetcher that holds this fetch has it in hand, and no other one: if the fetcher dies now, this fetch
-- counts an attempt (sql/lost.sql). Returns it, unless sweep took it back or it was cancelled (fenced write). Any
-- outcome that is stored for it ends that (store.sql).
-- Promises: the lease lasts long enough for the result to be stored. If it was over, a sweep that has seen the fetch
-- before it was in hand leaves it alone: sweep stores only what is still lost at that moment.
UPDATE weir_fetches_fetch
SET in_hand = true, lease_until = greatest(lease_until, clock_timestamp() + make_interval(secs => %(storing)s::float8))
WHERE id = %(fetch)s AND slot_id = %(slot)s AND finished_at IS NULL
RETURNING id
