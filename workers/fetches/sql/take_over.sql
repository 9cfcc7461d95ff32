-- Which fetch is this slot for now that its own was cancelled? Asked by the slot's holder, whose it is already.
SELECT
    job.id, CASE WHEN job.hop_url = '' THEN job.url ELSE job.hop_url END AS url,
    job.redirects, job.attempts, job.max_attempts
FROM fetches_fetch AS job
WHERE job.slot_id = %(slot)s AND job.state = 'running'
