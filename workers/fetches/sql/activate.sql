-- Look at the sites `sites`, or, if `sites` is NULL, at the next `most` sites after site `after`. A site that has a
-- fetch due gets an active backlog flag. At any other site, `due_at` is set to the time at which its first queued fetch
-- becomes due, if that time is sooner than the `due_at` that it has.
-- Run after fetches were queued, or flags deactivated, in a transaction that has committed: the snapshot of this
-- statement is newer than that commit (backlog.py).
-- Promises: only inactive sites are changed, and no `due_at` becomes later. Returns one row: the sites that were
-- activated, how many sites were looked at, and the last of the sites that were looked at.
--
-- looked_at  the sites; if they are named in `sites`, the newest versions of their rows
-- head       the first queued fetch of each priority, at each inactive site (index jump)
-- first      when the first of a site's queued fetches becomes due
-- changed    the sites at which that time is sooner than `due_at`
WITH RECURSIVE looked_at AS MATERIALIZED (
    SELECT site.id, site.has_backlog
    FROM unnest(%(sites)s::bigint[]) AS named (id)
    CROSS JOIN LATERAL (  -- newest version (docs/explanation/sql.md)
        SELECT id, has_backlog FROM weir_ratelimit_site
        WHERE (id, name) >= (named.id, '') AND id <= named.id
        ORDER BY id DESC
        LIMIT 1
    ) AS site
    UNION ALL
    (
        SELECT id, has_backlog
        FROM weir_ratelimit_site
        WHERE id > %(after)s AND %(sites)s::bigint[] IS NULL
        ORDER BY id
        LIMIT %(most)s
    )
), head AS (
    SELECT looked_at.id, best.priority, best.not_before
    FROM looked_at
    CROSS JOIN LATERAL (  -- first row
        SELECT priority, not_before FROM weir_fetches_fetch AS job
        WHERE job.site_id = looked_at.id AND job.state = 'queued'
        ORDER BY job.priority DESC, job.not_before, job.id
        LIMIT 1
    ) AS best
    WHERE NOT looked_at.has_backlog
    UNION ALL
    SELECT head.id, best.priority, best.not_before
    FROM head
    CROSS JOIN LATERAL (
        SELECT priority, not_before FROM weir_fetches_fetch AS job
        WHERE job.site_id = head.id AND job.state = 'queued' AND job.priority < head.priority
        ORDER BY job.priority DESC, job.not_before, job.id
        LIMIT 1
    ) AS best
), first AS (
    SELECT id, min(not_before) AS due_at FROM head GROUP BY id
), changed AS (
    UPDATE weir_ratelimit_backlog AS site
    SET has_backlog = first.due_at <= statement_timestamp(),
        due_at = CASE WHEN first.due_at > statement_timestamp() THEN first.due_at END
    FROM (SELECT * FROM first WHERE id = abs(id)) AS first  -- true condition
    WHERE site.id = first.id AND NOT site.has_backlog  -- second look
        AND (first.due_at <= statement_timestamp() OR first.due_at < coalesce(site.due_at, 'infinity'))
    RETURNING site.id, site.has_backlog
)
SELECT
    ARRAY(SELECT id FROM changed WHERE has_backlog ORDER BY id) AS activated,
    count(*) AS looked_at,
    max(id) AS last
FROM looked_at
