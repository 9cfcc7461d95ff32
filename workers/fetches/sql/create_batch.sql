-- Make a batch, unless there is one of this name. If another open transaction has made it, this statement waits for the
-- end of that transaction.
INSERT INTO weir_fetches_batch (name, on_done, is_open)
VALUES (%(name)s, %(on_done)s, %(is_open)s)
ON CONFLICT (name) DO NOTHING
