-- Count the watches that fail, and those that are paused, up to `most` + 1 each, and read for how long the one has been
-- due that is asked for next. Count the OAuth clients without an access token that counts, which were asked for lately.
-- Indexes: weir_watch_failing, weir_watch_paused, weir_watch_due (unknown limit, docs/explanation/sql.md). Only reads.
SELECT
    (
        SELECT count(*) FROM (
            SELECT FROM weir_watches_watch WHERE failing_since IS NOT NULL ORDER BY id LIMIT (SELECT %(most)s::bigint + 1)
        ) AS watch
    ) AS failing,
    (
        SELECT count(*) FROM (
            SELECT FROM weir_watches_watch WHERE next_at IS NULL ORDER BY id LIMIT (SELECT %(most)s::bigint + 1)
        ) AS watch
    ) AS paused,
    coalesce(
        (
            SELECT greatest(0, extract(epoch FROM statement_timestamp() - next_at)) FROM weir_watches_watch
            WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1
        ),
        0
    )::float8 AS due_s,
    (
        SELECT count(*) FROM weir_fetches_accesstoken
        WHERE error <> '' AND coalesce(expires_at, '-infinity') < statement_timestamp()
            AND refresh_at > statement_timestamp() - interval '5 minutes'
    ) AS without_token
