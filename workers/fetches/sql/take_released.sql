-- Take out a short batch of released bodies, up to the `newest`; returns their hashes, each perhaps several times.
DELETE FROM weir_fetches_releasedbody
WHERE id = ANY(ARRAY(
    SELECT id FROM weir_fetches_releasedbody WHERE id <= %(newest)s ORDER BY id LIMIT %(batch)s FOR UPDATE SKIP LOCKED
))
RETURNING sha256
