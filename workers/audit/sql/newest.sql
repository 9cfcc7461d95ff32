-- Read, for each of these targets, the newest entry whose action is one of `actions`, if it is among the newest `most`
-- entries of the target. Reads only, in index order (docs/explanation/sql.md), after planner.in_index_order: the two
-- comparisons leave only weir_entry_by_target, whatever the statistics say.
SELECT wanted.target, entry.actor, entry.action, entry.why, entry.after
FROM unnest(%(targets)s::text[]) AS wanted (target)
CROSS JOIN LATERAL (
    SELECT target, id, actor, action, why, after
    FROM (
        SELECT target, id, actor, action, why, after
        FROM weir_audit_entry
        WHERE weir_audit_entry.target >= wanted.target AND weir_audit_entry.target <= wanted.target
        ORDER BY target, id DESC
        LIMIT %(most)s
    ) AS newest
    WHERE action = ANY(%(actions)s)
    ORDER BY target, id DESC
    LIMIT 1
) AS entry
