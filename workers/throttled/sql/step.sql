-- Correct the times of postponed tasks, after PostgreSQL's clock was stepped by `step`: their leases, and, if the clock
-- was set back, their places in the queues.
UPDATE weir_throttled_postponedtask
SET lease_until = lease_until + %(step)s, not_before = not_before + least(%(step)s, '0'::interval)
