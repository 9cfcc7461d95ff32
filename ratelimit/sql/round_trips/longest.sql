-- Return the longest round trip that a holder of slots has reported in the last `lives` seconds. Reads only.
SELECT coalesce(max(seconds), 0)::float8 AS seconds
FROM ratelimit_roundtrip
WHERE reported_at > statement_timestamp() - make_interval(secs => %(lives)s::float8)
