-- Move the times at which watches are due, after PostgreSQL's clock was set back by `step`, which is negative. After a
-- step forward, they stay: a watch that has become due by it is asked for once. Reads the whole table.
UPDATE weir_watches_watch SET next_at = next_at + %(step)s WHERE next_at IS NOT NULL AND %(step)s < '0'::interval
