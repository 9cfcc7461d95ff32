-- Note, by the fetcher that holds it, that it has this fetch in hand, and no other one: should the fetcher die now, this
-- one counts an attempt (maintenance/sql/lost.sql). Returns it, unless sweep took it back or it was cancelled (fenced
-- write). What is stored for it, by whomever, ends that (store.sql).
UPDATE fetches_fetch
SET in_hand = true
WHERE id = %(fetch)s AND slot_id = %(slot)s AND finished_at IS NULL
RETURNING id
