-- Delete a short batch of what was written while events were kept, if they are kept no more.
WITH new AS (
    DELETE FROM weir_events_newevent
    WHERE id = ANY(ARRAY(
        SELECT id FROM weir_events_newevent WHERE (SELECT id FROM weir_events_eventlog) IS NULL LIMIT %(batch)s
    ))
    RETURNING 1
), gone AS (
    DELETE FROM weir_events_event
    WHERE id = ANY(ARRAY(
        SELECT id FROM weir_events_event WHERE (SELECT id FROM weir_events_eventlog) IS NULL LIMIT %(batch)s
    ))
    RETURNING 1
)
SELECT greatest((SELECT count(*) FROM new), (SELECT count(*) FROM gone)) AS deleted
