-- Open the gate that a step of PostgreSQL's clock has closed, in a transaction that corrects all times. Returns the
-- step in seconds. No row: the step is settled. The lease ends at a time by that clock, so two processes may both have
-- it: the second process waits here for the first one's commit, and then finds no step.
UPDATE weir_timeline_knowntimeline AS seen
SET steps = seen.steps + 1, step_s = NULL, closed_because = '', numbered_at = clock_timestamp(),
    lease_until = NULL, lease_token = NULL,
    went_back_at = went_back_at + make_interval(secs => closed.step_s)  -- not an earlier moment: new sites rest from it
FROM (SELECT id, step_s FROM weir_timeline_knowntimeline WHERE step_s IS NOT NULL FOR UPDATE) AS closed
WHERE seen.id = closed.id
RETURNING closed.step_s
