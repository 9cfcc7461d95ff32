-- Renew the lease of a recovery, until the gate is opened. No row: another process has opened it.
UPDATE timeline_knowntimeline SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s::float8)
WHERE lease_until IS NOT NULL
RETURNING id
