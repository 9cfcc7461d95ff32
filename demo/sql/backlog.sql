-- Each site's fetches: those that dispatch could reserve now, and all that wait for their start.
SELECT
    site.name,
    count(*) FILTER (WHERE job.state = 'queued' AND job.not_before <= clock_timestamp()) AS due,
    count(*) AS waiting
FROM weir_fetches_fetch AS job
JOIN weir_ratelimit_site AS site ON site.id = job.site_id
WHERE job.state IN ('queued', 'reserved')
GROUP BY site.name
