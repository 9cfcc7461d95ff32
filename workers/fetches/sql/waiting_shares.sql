-- Read which shares wait at a site, of its first `looked_at` shares by name: the `most` that have most queued fetches,
-- counted up to `counted` + 1. The share with the empty name is that of fetches without one. Reads only, in the order of
-- the index weir_fetch_shares (index jump, docs/explanation/sql.md).
WITH RECURSIVE waiting AS (
    (
        SELECT share, 1 AS place FROM weir_fetches_fetch AS job
        WHERE job.site_id = %(site)s AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share IS NOT NULL
        ORDER BY job.share, job.priority DESC, job.not_before, job.id
        LIMIT 1
    )
    UNION ALL
    SELECT next.share, waiting.place + 1
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT share FROM weir_fetches_fetch AS job
        WHERE job.site_id = %(site)s AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share > waiting.share
        ORDER BY job.share, job.priority DESC, job.not_before, job.id
        LIMIT 1
    ) AS next
    WHERE waiting.place < %(looked_at)s
)
SELECT share, coalesce((site.weights ->> share)::int, 1) AS weight, queue.queued
FROM waiting
CROSS JOIN LATERAL (
    SELECT count(*) AS queued
    FROM (
        SELECT FROM weir_fetches_fetch AS job
        WHERE job.site_id = %(site)s AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share = waiting.share
        ORDER BY job.priority DESC, job.not_before, job.id
        LIMIT %(counted)s + 1
    ) AS counted
) AS queue
LEFT JOIN weir_ratelimit_site AS site ON site.id = %(site)s
ORDER BY queue.queued DESC, share
LIMIT %(most)s
