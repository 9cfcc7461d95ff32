-- Open the gate that a step of PostgreSQL's clock has closed, in a transaction that puts all times right. Returns the
-- step. No row: it is settled. Two processes may both have the lease, because it ends at a time by that clock: the
-- second one waits here for the first one's commit, and finds no step.
UPDATE weir_timeline_knowntimeline AS seen
SET steps = seen.steps + 1, step_s = NULL, closed_because = '', numbered_at = clock_timestamp(),
    lease_until = NULL, lease_token = NULL,
    went_back_at = went_back_at + make_interval(secs => closed.step_s)  -- no earlier than it was: a site may rest from then
FROM (SELECT id, step_s FROM weir_timeline_knowntimeline WHERE step_s IS NOT NULL FOR UPDATE) AS closed
WHERE seen.id = closed.id
RETURNING closed.step_s
