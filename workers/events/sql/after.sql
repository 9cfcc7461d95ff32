-- Read the log from after the event `after` on, of fetches, e-mails and effects as asked, in the order of ids, at most `most`.
-- Returns a row without an event if there is none, and no row if no events are kept. Reads only, in index order
-- (docs/explanation/sql.md). The row of the log is of the same snapshot: what is purged meanwhile is seen, or is told.
SELECT
    log.key,
    greatest(
        CASE WHEN %(fetches)s::bool THEN purged_fetch_id ELSE 0 END,
        CASE WHEN %(emails)s::bool THEN purged_email_id ELSE 0 END,
        CASE WHEN %(effects)s::bool THEN purged_effect_id ELSE 0 END
    ) AS purged_id,
    event.*
FROM weir_events_eventlog AS log
LEFT JOIN LATERAL (
    SELECT * FROM (
        (
            SELECT id, subject, subject_id, state, kind, reference, at FROM weir_events_event
            WHERE (subject, id) > ('fetch', %(after)s) AND subject <= 'fetch' AND %(fetches)s::bool
            ORDER BY subject, id
            LIMIT %(most)s
        ) UNION ALL (
            SELECT id, subject, subject_id, state, kind, reference, at FROM weir_events_event
            WHERE (subject, id) > ('email', %(after)s) AND subject <= 'email' AND %(emails)s::bool
            ORDER BY subject, id
            LIMIT %(most)s
        ) UNION ALL (
            SELECT id, subject, subject_id, state, kind, reference, at FROM weir_events_event
            WHERE (subject, id) > ('effect', %(after)s) AND subject <= 'effect' AND %(effects)s::bool
            ORDER BY subject, id
            LIMIT %(most)s
        )
    ) AS any_of_them
    ORDER BY id
    LIMIT %(most)s
) AS event ON true
ORDER BY event.id
