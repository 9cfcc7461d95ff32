-- Note how far the pass came, and give the lease back. A whole full scan since the incarnation began makes Redis
-- trusted. Does nothing where another reconciler has begun a pass with another incarnation. A pass that outlived its
-- lease does not end the lease of the reconciler that took over.
UPDATE notifications_reconciliation SET
    changes_until = %(changes_until)s,
    scanned_until = %(scanned_until)s,
    trusted = trusted OR %(scan_done)s,
    scan_took = CASE WHEN %(scan_done)s THEN clock_timestamp() - scan_began_at ELSE scan_took END,
    scan_began_at = CASE WHEN %(scan_done)s THEN clock_timestamp() ELSE scan_began_at END,
    lease_until = CASE WHEN lease_until = %(lease_until)s THEN clock_timestamp() ELSE lease_until END
WHERE incarnation = %(incarnation)s
RETURNING trusted, scan_took
