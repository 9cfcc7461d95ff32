-- Return, for each named site, how many fetches are queued, up to `most` + 1; how long the first fetch of the queue has
-- been due; and whether the site is paused, backed off, resting or unreachable (row look-up, index order). Only reads.
-- There is no row for a name without a site.
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
    weir_ratelimit_held_state(
        paused_until, backed_off_until, refused_until, backoff_error, is_silent, has_backlog OR due_at IS NOT NULL,
        statement_timestamp()
    ) IS NOT NULL AS is_held
FROM unnest(%(names)s::text[]) AS wanted (name)
CROSS JOIN LATERAL (
    SELECT
        id, name, paused_until, backed_off_until, refused_until, backoff_error, is_silent, has_backlog, due_at
    FROM weir_ratelimit_site
    WHERE weir_ratelimit_site.name = wanted.name
    OFFSET 0
) AS site
