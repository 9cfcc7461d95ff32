-- Delete a batch of rows about repairs, the oldest first, but never one of the newest `kept` (index order).
WITH old AS (
    SELECT id FROM weir_notifications_repair
    WHERE id <= (SELECT id FROM weir_notifications_repair ORDER BY id DESC OFFSET %(kept)s LIMIT 1)
    ORDER BY id
    LIMIT %(batch)s
), gone AS (
    DELETE FROM weir_notifications_repair WHERE id = ANY (array(SELECT id FROM old)) RETURNING 1
)
SELECT count(*) AS deleted FROM gone
