-- Move the times at which watches are due, after PostgreSQL's clock was stepped by `step`. Reads the whole table.
UPDATE weir_watches_watch SET next_at = next_at + %(step)s WHERE next_at IS NOT NULL
