-- Note how far heal came, and let the next one begin; a whole round since the incarnation began makes it trusted.
-- Does nothing where somebody else has begun with another incarnation; who only took over an old lease keeps it.
UPDATE notifications_healing SET
    changes_until = %(changes_until)s,
    scrubbed_until = %(scrubbed_until)s,
    trusted = trusted OR %(round_done)s,
    round_took = CASE WHEN %(round_done)s THEN clock_timestamp() - round_began_at ELSE round_took END,
    round_began_at = CASE WHEN %(round_done)s THEN clock_timestamp() ELSE round_began_at END,
    lease_until = CASE WHEN lease_until = %(lease_until)s THEN clock_timestamp() ELSE lease_until END
WHERE incarnation = %(incarnation)s
RETURNING trusted, round_took
