-- Return, for each named site, how many fetches are queued, up to `most` + 1; how long the first fetch of the queue has
-- been due; and whether the site is paused or backed off (row look-up, index order). Only reads. There is no row for a
-- name without a site.
SELECT
    site.name,
    (
        SELECT count(*)
        FROM (
            SELECT FROM weir_fetches_fetch AS job
            WHERE job.site_id = site.id AND job.state = 'queued'
            ORDER BY priority DESC, not_before, id
            LIMIT %(most)s + 1
        ) AS queued
    ) AS queued,
    coalesce(
        (
            SELECT greatest(extract(epoch FROM statement_timestamp() - not_before), 0)
            FROM weir_fetches_fetch AS job
            WHERE job.site_id = site.id AND job.state = 'queued'
            ORDER BY priority DESC, not_before, id
            LIMIT 1
        ),
        0
    )::float8 AS first_due_s,
    greatest(paused_until, backed_off_until) > statement_timestamp() AS is_held
FROM unnest(%(names)s::text[]) AS wanted (name)
CROSS JOIN LATERAL (
    SELECT id, name, paused_until, backed_off_until FROM weir_ratelimit_site WHERE weir_ratelimit_site.name = wanted.name OFFSET 0
) AS site
