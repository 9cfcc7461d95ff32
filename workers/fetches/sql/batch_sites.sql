-- Read where the queued fetches of a batch wait: of the `look` newest of them, the `most` sites whose fetches take
-- longest at the site's interval. `due_in_s` is until the last of these fetches is due, `looked_at` how many fetches were
-- looked at, at all sites. Index order, row look-up (docs/explanation/sql.md). Reads only.
WITH waiting AS MATERIALIZED (
    SELECT site_id, not_before
    FROM weir_fetches_fetch
    WHERE batch_id IS NOT NULL
        AND (batch_id, state, id) < (%(batch)s, 'queued', 9223372036854775807)
        AND (batch_id, state, id) > (%(batch)s, 'queued', 0)
    ORDER BY batch_id DESC, state DESC, id DESC
    LIMIT (SELECT %(look)s::bigint)  -- unknown limit
), counted AS MATERIALIZED (
    SELECT site_id, count(*) AS fetches, max(not_before) AS due_at FROM waiting GROUP BY site_id
)
SELECT
    site.name, fetches,
    CASE WHEN due_at >= '8000-01-01 00:00:00+00' THEN 'Infinity'  -- it waits for what became of its effect
        ELSE extract(epoch FROM due_at - statement_timestamp())::float8 END AS due_in_s,
    (SELECT count(*) FROM waiting) AS looked_at
FROM counted
CROSS JOIN LATERAL (
    SELECT name, effective_interval FROM weir_ratelimit_site WHERE id = counted.site_id OFFSET 0
) AS site
ORDER BY fetches * effective_interval DESC, name
LIMIT %(most)s
