-- Put the times of postponed tasks right, after PostgreSQL's clock was stepped by `step`: leases, and, if it was set
-- back, their places in the queues.
UPDATE weir_throttled_postponedtask
SET lease_until = lease_until + %(step)s, not_before = not_before + least(%(step)s, '0'::interval)
