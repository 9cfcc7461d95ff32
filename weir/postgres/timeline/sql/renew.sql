-- Renew the lease of a recovery. No row: another process has taken the lease, or the gate was opened.
UPDATE weir_timeline_knowntimeline SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s::float8)
WHERE lease_token = %(token)s::uuid
RETURNING id
