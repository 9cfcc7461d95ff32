-- Take or renew the lease of beat, for `lease` seconds. If `holder` has the lease now, returns the time, and when the
-- schedule was last changed. If another beat has the lease, returns no row. A lease that ends later than a lease taken
-- now was taken before the clock was set back, and counts as ended.
INSERT INTO weir_workers_beatlease AS taken (id, holder, lease_until)
VALUES (1, %(holder)s, clock_timestamp() + make_interval(secs => %(lease)s::float8))
ON CONFLICT (id) DO UPDATE
SET holder = %(holder)s, lease_until = clock_timestamp() + make_interval(secs => %(lease)s::float8)
WHERE taken.holder = %(holder)s
    OR taken.lease_until < clock_timestamp()
    OR taken.lease_until > clock_timestamp() + make_interval(secs => %(lease)s::float8)
RETURNING clock_timestamp() AS now, (SELECT last_update FROM django_celery_beat_periodictasks LIMIT 1) AS changed_at
