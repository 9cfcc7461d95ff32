-- Record how far a pass has come, and renew its lease for `lease` seconds. A whole full scan since the incarnation
-- began makes Redis trusted. The scan has also compared the users of all changes that were `settled` seconds old when
-- the scan began. So the cursor of changes moves to this time, if it is earlier (docs/explanation/counted.md). Returns
-- no row, and changes nothing, if another reconciler has taken the lease, because that one may have found another
-- incarnation. A lease that has run out can be renewed until another reconciler takes it (fenced write).
UPDATE weir_notifications_reconciliation SET
    changes_until = CASE WHEN %(scan_done)s
        THEN greatest(%(changes_until)s, scan_began_at - make_interval(secs => %(settled)s::float8))
        ELSE %(changes_until)s END,
    changes_until_id = CASE WHEN %(scan_done)s
        AND %(changes_until)s < scan_began_at - make_interval(secs => %(settled)s::float8)
        THEN 0 ELSE %(changes_until_id)s END,
    scanned_until = %(scanned_until)s::user_key,
    trusted = trusted OR %(scan_done)s,
    scan_took = CASE WHEN %(scan_done)s THEN clock_timestamp() - scan_began_at ELSE scan_took END,
    scan_ended_at = CASE WHEN %(scan_done)s THEN clock_timestamp() ELSE scan_ended_at END,
    scan_began_at = CASE WHEN %(scan_done)s THEN clock_timestamp() ELSE scan_began_at END,
    lease_until = clock_timestamp() + make_interval(secs => %(lease)s::float8)
WHERE lease_until = %(lease_until)s
RETURNING trusted, scan_took, changes_until, changes_until_id, lease_until
