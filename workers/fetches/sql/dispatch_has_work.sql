-- Return whether dispatch has anything to do: a site has a backlog, or a fetch has become due at one. First row
-- (docs/explanation/sql.md).
SELECT (SELECT id FROM weir_ratelimit_site WHERE has_backlog ORDER BY id LIMIT 1) IS NOT NULL
    OR (
        SELECT id FROM weir_ratelimit_site
        WHERE due_at BETWEEN '-infinity' AND statement_timestamp()
        ORDER BY due_at
        LIMIT 1
    ) IS NOT NULL AS has_work
