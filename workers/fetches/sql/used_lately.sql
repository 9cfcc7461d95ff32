-- Count the slots a second that fetchers have used in the last `lately` seconds, among the newest `most` slots. Each
-- used slot is one request, even if its answer was a redirect, or the fetch is tried again. Reads only.
SELECT count(*) FILTER (
    WHERE finished_at > statement_timestamp() - make_interval(secs => %(lately)s::float8)
) / %(lately)s::float8 AS per_s
FROM (SELECT finished_at FROM weir_ratelimit_slot ORDER BY id DESC LIMIT %(most)s) AS newest
