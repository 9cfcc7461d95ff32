-- Take the lease of the beat that ticks, for `lease` seconds, or renew it. Returns the time where `holder` has it now, and
-- no row where another beat has it. A lease that ends later than any that is taken now is of a clock that was set back: it
-- has ended. A beat of the version before has no lease, but an advisory lock (`older_lock`), and does not see this row:
-- while it ticks, no beat takes the lease, and the one that has it loses it. This goes with the next version
-- (docs/how-to/upgrade.md).
WITH older AS (
    SELECT
    FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 0 AND objid = %(older_lock)s::oid AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
INSERT INTO weir_workers_beatlease AS taken (id, holder, lease_until)
SELECT 1, %(holder)s, clock_timestamp() + make_interval(secs => %(lease)s::float8)
WHERE NOT EXISTS (SELECT FROM older)
ON CONFLICT (id) DO UPDATE
SET holder = %(holder)s, lease_until = clock_timestamp() + make_interval(secs => %(lease)s::float8)
WHERE taken.holder = %(holder)s
    OR taken.lease_until < clock_timestamp()
    OR taken.lease_until > clock_timestamp() + make_interval(secs => %(lease)s::float8)
RETURNING clock_timestamp() AS now
