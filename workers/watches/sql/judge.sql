-- Judge at most `most` fetches of watches that have ended, of those that the caller's transaction has taken; of each watch
-- it has taken one at most. A body has changed if its SHA-256 differs from that of the watch's last good body. After a
-- 304, the body is the one that it refers to, which another fetch may have brought. A failure, and a status that is not
-- 2xx, is no change.
-- Returns each fetch that was judged, with the task that it has to call; without one, and without a watch, it is empty.
-- A fetch whose watch another transaction has locked is not returned.
--
-- ended   the fetches, each with what it brought
-- locked  the watches, locked (skip locked, docs/explanation/sql.md)
-- read    the hash of each body; NULL without a good one
-- told    what is to be stored
-- moved   the watches
WITH ended AS MATERIALIZED (
    SELECT
        job.*,
        -- A body that is accepted though its headers say otherwise is good; a part of one, which nobody asked for, is not.
        job.state = 'done' AND (job.incomplete = '' OR job.status_code <> 206)
            AND (job.status_code BETWEEN 200 AND 299 OR job.body_id <> job.id) AS is_good
    FROM unnest(%(fetches)s::bigint[]) AS wanted (fetch_id)
    CROSS JOIN LATERAL (  -- row look-up
        SELECT
            id, url, dedupe_key, request_headers, state, status_code, error, incomplete, finished_at,
            coalesce(unchanged_from_id, id) AS body_id
        FROM weir_fetches_fetch
        WHERE id = wanted.fetch_id
        OFFSET 0
    ) AS job
), locked AS MATERIALIZED (
    SELECT
        watch.id, watch.body_hash, watch.body_id AS known_id, watch.tell_first, watch.on_change, watch.period,
        watch.shortest, watch.longest,
        ended.id AS fetch_id, ended.state, ended.status_code, ended.error, ended.body_id, ended.finished_at,
        -- A fetch from before the watch was changed brought another page.
        is_good AND ended.url = watch.url AND ended.request_headers IS NOT DISTINCT FROM watch.request_headers AS is_good,
        ended.url <> watch.url OR ended.request_headers IS DISTINCT FROM watch.request_headers AS is_other
    FROM ended
    CROSS JOIN LATERAL (
        SELECT * FROM weir_watches_watch WHERE dedupe_key = ended.dedupe_key LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS watch
    LIMIT (SELECT %(most)s::bigint)  -- unknown limit
), read AS MATERIALIZED (
    SELECT locked.*, CASE WHEN is_good THEN
        CASE WHEN body_id = known_id AND body_hash IS NOT NULL THEN body_hash
        ELSE (SELECT coalesce(body.sha256, sha256(content)) FROM weir_fetches_fetchbody AS body WHERE body.fetch_id = locked.body_id) END
    END AS new_hash
    FROM locked
), told AS MATERIALIZED (
    SELECT
        read.*,
        coalesce(new_hash <> body_hash, false) AS is_change,
        coalesce(new_hash <> body_hash, tell_first AND new_hash IS NOT NULL AND body_hash IS NULL) AS is_told,
        CASE
            WHEN is_other OR state = 'cancelled' THEN NULL  -- neither better nor worse
            WHEN is_good THEN ''
            WHEN state = 'done' THEN 'the site answered ' || status_code
            ELSE error
        END AS new_error,
        CASE
            WHEN shortest IS NULL OR is_other OR state = 'cancelled' OR body_hash IS NULL THEN period
            WHEN new_hash <> body_hash THEN greatest(shortest, period / 2)
            ELSE least(longest, period * 1.5)
        END AS new_period
    FROM read
), moved AS (
    UPDATE weir_watches_watch AS watch
    SET judged_at = clock_timestamp(),
        body_hash = coalesce(told.new_hash, watch.body_hash),
        body_id = CASE WHEN told.new_hash IS NULL THEN watch.body_id ELSE told.body_id END,
        changed_at = CASE WHEN told.is_change THEN told.finished_at ELSE watch.changed_at END,
        changes = watch.changes + told.is_change::int,
        error = coalesce(told.new_error, watch.error),
        failing_since = CASE
            WHEN told.new_error = '' THEN NULL
            WHEN told.new_error IS NULL THEN watch.failing_since
            ELSE coalesce(watch.failing_since, told.finished_at)
        END,
        period = told.new_period,
        next_at = CASE WHEN told.new_period = watch.period OR watch.next_at IS NULL THEN watch.next_at
            ELSE clock_timestamp() + told.new_period * (1 + watch.jitter * (2 * random() - 1)) END
    FROM (SELECT * FROM told WHERE id = abs(id)) AS told  -- true condition
    WHERE watch.id = told.id
    RETURNING told.fetch_id, CASE WHEN told.is_told THEN watch.on_change ELSE '' END AS task
)
SELECT fetch_id, task FROM moved
UNION ALL
SELECT id, '' FROM ended
WHERE (SELECT id FROM weir_watches_watch AS watch WHERE watch.dedupe_key = ended.dedupe_key LIMIT 1) IS NULL  -- removed
