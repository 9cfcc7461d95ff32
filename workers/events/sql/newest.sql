-- Return the key of the log, and the highest id that was given to an event, also to one that is purged; no row if no
-- events are kept. First row (docs/explanation/sql.md). Reads only.
SELECT
    key,
    greatest(purged_fetch_id, purged_email_id, coalesce((SELECT id FROM weir_events_event ORDER BY id DESC LIMIT 1), 0)) AS id
FROM weir_events_eventlog
