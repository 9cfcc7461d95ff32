-- Count, for each site, the used slots that started in the last `lately` seconds, among the newest `most` slots. Reads
-- only.
SELECT site_id, count(*) AS fetches
FROM (SELECT site_id, start_time, finished_at FROM weir_ratelimit_slot ORDER BY id DESC LIMIT %(most)s) AS newest
WHERE finished_at IS NOT NULL
    AND start_time BETWEEN statement_timestamp() - make_interval(secs => %(lately)s::float8) AND statement_timestamp()
GROUP BY site_id
