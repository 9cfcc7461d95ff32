-- Move committed new events to the log, at most `batch`, in the order in which they were written, and give them ids.
-- Promises: each event is in the log once. When an id is visible, all lower ids are visible, or belong to no event: one
-- execution at a time gives ids, and the next one begins after its commit. An event whose transaction is still open is
-- not seen, and gets a higher id later. No id is given while PostgreSQL may have forgotten some (gate).
-- Returns how many were moved; NULL if another execution is at work, which moves what it sees.
--
-- log     the row that only one execution can lock
-- taken   the events, deleted where they waited; another execution may have deleted some since this one's snapshot
-- moved   the events, in the log
WITH log AS MATERIALIZED (
    SELECT id FROM weir_events_eventlog
    WHERE (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS MATERIALIZED (
    DELETE FROM weir_events_newevent
    WHERE id = ANY(ARRAY(  -- array look-up (docs/explanation/sql.md)
        SELECT id FROM weir_events_newevent WHERE (SELECT id FROM log) IS NOT NULL ORDER BY id LIMIT %(batch)s
    ))
    RETURNING *
), moved AS (
    INSERT INTO weir_events_event (subject, subject_id, state, kind, reference, at)
    SELECT subject, subject_id, state, kind, reference, at FROM taken ORDER BY id
    RETURNING 1
)
SELECT CASE WHEN (SELECT id FROM log) IS NOT NULL THEN (SELECT count(*) FROM moved) END AS moved
