-- Renew the lease of a recovery, until the gate is opened. No row: another process has taken it, or has opened the gate.
UPDATE weir_timeline_knowntimeline SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s::float8)
WHERE lease_token = %(token)s::uuid
RETURNING id
