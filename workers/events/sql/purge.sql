-- Delete those of the `batch` oldest events that ended more than `older_than` seconds ago, and record their highest ids.
-- Promises: a reader that has missed one of them is told (purged_fetch_id and the like).
WITH old AS MATERIALIZED (
    SELECT id
    FROM (SELECT id, at FROM weir_events_event ORDER BY id LIMIT %(batch)s) AS oldest
    WHERE at < clock_timestamp() - make_interval(secs => %(older_than)s::float8)
), gone AS (
    DELETE FROM weir_events_event WHERE id = ANY(ARRAY(SELECT id FROM old)) RETURNING id, subject
), highest AS MATERIALIZED (
    SELECT
        count(*) AS deleted,
        max(id) FILTER (WHERE subject = 'fetch') AS of_fetches,
        max(id) FILTER (WHERE subject = 'email') AS of_emails,
        max(id) FILTER (WHERE subject = 'effect') AS of_effects
    FROM gone
), noted AS (
    UPDATE weir_events_eventlog SET
        purged_fetch_id = greatest(purged_fetch_id, of_fetches),
        purged_email_id = greatest(purged_email_id, of_emails),
        purged_effect_id = greatest(purged_effect_id, of_effects)
    FROM highest
    WHERE deleted > 0
)
SELECT deleted FROM highest
