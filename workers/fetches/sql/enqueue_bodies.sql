-- Store the body of the requests of new fetches, in the transaction that has queued them.
INSERT INTO weir_fetches_requestbody (fetch_id, content)
SELECT id, %(body)b::bytea FROM unnest(%(fetches)s::bigint[]) AS new (id)
