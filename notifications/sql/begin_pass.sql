-- Take the lease for a pass, for `lease` seconds, unless another reconciler holds it. Returns how far the last pass
-- came, or no row if another reconciler holds the lease. If Redis has another incarnation than before, deltas are lost.
-- Then Redis is not trusted, and the full scan begins anew.
INSERT INTO weir_notifications_reconciliation AS last (
    id, incarnation, server_run, trusted, changes_until, changes_until_id, scan_began_at, lease_until
) VALUES (
    1, %(incarnation)s, %(server_run)s, false,
    clock_timestamp() - make_interval(secs => %(settled)s::float8), 0,
    clock_timestamp(), clock_timestamp() + make_interval(secs => %(lease)s::float8)
)
ON CONFLICT (id) DO UPDATE SET
    incarnation = excluded.incarnation,
    server_run = excluded.server_run,
    trusted = last.trusted AND last.incarnation = excluded.incarnation,
    scanned_until = CASE WHEN last.incarnation = excluded.incarnation THEN last.scanned_until END,
    scan_began_at = CASE WHEN last.incarnation = excluded.incarnation
        THEN last.scan_began_at ELSE excluded.scan_began_at END,
    lease_until = excluded.lease_until
WHERE last.lease_until < clock_timestamp()
    OR last.lease_until > excluded.lease_until  -- the clock was set back after the lease was taken
RETURNING trusted, changes_until, changes_until_id, scanned_until, lease_until
