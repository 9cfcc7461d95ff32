-- Return the state of unread numbers. Reads only. Each figure is found through an index, and counting stops at `most`
-- + 1, so that the cost does not grow with the tables (index order). Before the first pass of reconciliation, `trusted`
-- and the columns of the full scan are NULL.
--
-- clock  the same `now` for all ages
-- pass   the one row of reconciliation
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), pass AS MATERIALIZED (
    SELECT trusted, scanned_until, scan_ended_at, scan_took, repaired_users
    FROM weir_notifications_reconciliation WHERE id = 1
)
SELECT
    now,
    trusted,
    (SELECT count(*) FROM (SELECT FROM weir_notifications_doubt LIMIT %(most)s + 1) AS doubt) AS doubts,
    (
        SELECT extract(epoch FROM now - noted_at)::float8
        FROM weir_notifications_doubt ORDER BY noted_at, user_id LIMIT 1
    ) AS oldest_doubt_s,
    (
        SELECT extract(epoch FROM now - flushed_at)::float8
        FROM weir_notifications_flushedepoch ORDER BY epoch DESC LIMIT 1
    ) AS flushed_s,
    scanned_until,
    (SELECT user_id FROM weir_notifications_unreadcount ORDER BY user_id LIMIT 1) AS first_user,
    (SELECT user_id FROM weir_notifications_unreadcount ORDER BY user_id DESC LIMIT 1) AS last_user,
    scan_ended_at,
    extract(epoch FROM scan_took)::float8 AS scan_took_s,
    (SELECT count(*) FROM (SELECT FROM weir_notifications_readmark LIMIT %(most)s + 1) AS mark) AS read_marks,
    (SELECT count(*) FROM (SELECT FROM weir_notifications_forgottenuser LIMIT %(most)s + 1) AS forgotten) AS forgotten_users,
    coalesce(repaired_users, 0) AS repaired_users
FROM clock LEFT JOIN pass ON true
