-- Note, by the fetcher that holds it, that it has this fetch in hand, and no other one: should the fetcher die now, this
-- one counts an attempt (sql/lost.sql). Returns it, unless sweep took it back or it was cancelled (fenced
-- write). What is stored for it, by whomever, ends that (store.sql).
-- Promises: the lease lasts long enough for the result to be stored. Where it was over, a sweep that has seen the fetch
-- before it was in hand leaves it alone: it stores only what is lost at that moment, too.
UPDATE weir_fetches_fetch
SET in_hand = true, lease_until = greatest(lease_until, clock_timestamp() + make_interval(secs => %(storing)s::float8))
WHERE id = %(fetch)s AND slot_id = %(slot)s AND finished_at IS NULL
RETURNING id
