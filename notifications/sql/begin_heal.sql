-- Take the right to heal for `lease` seconds, unless somebody has it; returns how far heal has come.
-- Another incarnation of Redis lost deltas: it is not trusted until a new round has looked at all users.
INSERT INTO notifications_healing AS healing (
    id, incarnation, server_run, trusted, changes_until, scrubbed_until, round_began_at, lease_until
) VALUES (
    1, %(incarnation)s, %(server_run)s, false,
    clock_timestamp() - make_interval(secs => %(settled)s::float8),
    %(first_user)s, clock_timestamp(), clock_timestamp() + make_interval(secs => %(lease)s::float8)
)
ON CONFLICT (id) DO UPDATE SET
    incarnation = excluded.incarnation,
    server_run = excluded.server_run,
    trusted = healing.trusted AND healing.incarnation = excluded.incarnation,
    scrubbed_until = CASE WHEN healing.incarnation = excluded.incarnation
        THEN healing.scrubbed_until ELSE excluded.scrubbed_until END,
    round_began_at = CASE WHEN healing.incarnation = excluded.incarnation
        THEN healing.round_began_at ELSE excluded.round_began_at END,
    lease_until = excluded.lease_until
WHERE healing.lease_until < clock_timestamp()
RETURNING trusted, changes_until, scrubbed_until, lease_until
