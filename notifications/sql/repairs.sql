-- Return the newest repairs, the last one first (index order). Reads only.
SELECT id, repaired_at, users, drift FROM weir_notifications_repair ORDER BY id DESC LIMIT %(most)s
