-- Note how far PostgreSQL is from a holder of slots: `seconds` for a round trip. Reports of holders that have said nothing
-- for twice `lives` seconds are deleted (skip locked).
--
-- gone  the reports of holders that are gone
WITH gone AS (
    DELETE FROM ratelimit_roundtrip WHERE holder IN (
        SELECT holder FROM ratelimit_roundtrip
        WHERE reported_at < clock_timestamp() - make_interval(secs => 2 * %(lives)s::float8) AND holder <> %(holder)s
        FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO ratelimit_roundtrip (holder, seconds, reported_at)
VALUES (%(holder)s, %(seconds)s, clock_timestamp())
ON CONFLICT (holder) DO UPDATE SET seconds = excluded.seconds, reported_at = excluded.reported_at
