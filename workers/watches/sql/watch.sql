-- Store watches, in the caller's transaction: new ones, and changes of those that have the same keys. A row that would
-- stay as it is, is neither written nor locked. Returns one row for each that was written, and whether it is new.
-- New watches of one call are first due one after the other: the first at once, the rest spread over a period. A changed
-- one is due no later than before. A paused one stays paused. For another page, what is known of the body is forgotten.
-- Rows are written in the order of their keys' hashes, which the caller's arrays have (lock order,
-- docs/explanation/sql.md).
INSERT INTO weir_watches_watch AS watch (
    key, dedupe_key, url, host, request_headers, priority, revalidate, every, jitter, shortest, longest, period,
    tell_first, on_change, share, next_at
)
SELECT
    key, dedupe_key, url, host, %(request_headers)s::jsonb, %(priority)s, %(revalidate)s, %(every)s, %(jitter)s,
    %(shortest)s, %(longest)s, %(every)s, %(tell_first)s, %(on_change)s, %(share)s,
    statement_timestamp() + %(every)s::interval * (place / %(total)s::float8)
FROM unnest(%(keys)s::text[], %(dedupe_keys)s::uuid[], %(urls)s::text[], %(hosts)s::text[], %(places)s::bigint[])
    AS given (key, dedupe_key, url, host, place)
LEFT JOIN LATERAL (  -- row look-up
    SELECT true AS stays FROM weir_watches_watch AS known
    WHERE known.dedupe_key = given.dedupe_key AND (
        known.url, known.request_headers, known.priority, known.revalidate, known.every, known.jitter, known.shortest,
        known.longest, known.tell_first, known.on_change, known.share
    ) IS NOT DISTINCT FROM (
        given.url, %(request_headers)s::jsonb, %(priority)s, %(revalidate)s, %(every)s, %(jitter)s, %(shortest)s,
        %(longest)s, %(tell_first)s, %(on_change)s, %(share)s
    )
    OFFSET 0
) AS known ON true
WHERE known.stays IS NULL
ON CONFLICT (dedupe_key) DO UPDATE SET
    url = EXCLUDED.url, host = EXCLUDED.host, request_headers = EXCLUDED.request_headers, priority = EXCLUDED.priority,
    revalidate = EXCLUDED.revalidate, every = EXCLUDED.every, jitter = EXCLUDED.jitter, shortest = EXCLUDED.shortest,
    longest = EXCLUDED.longest, tell_first = EXCLUDED.tell_first, on_change = EXCLUDED.on_change,
    share = EXCLUDED.share,
    period = CASE
        WHEN (watch.every, watch.shortest, watch.longest)
            IS NOT DISTINCT FROM (EXCLUDED.every, EXCLUDED.shortest, EXCLUDED.longest) THEN watch.period
        ELSE EXCLUDED.period
    END,
    next_at = CASE
        WHEN watch.next_at IS NULL THEN NULL
        WHEN (watch.url, watch.request_headers, watch.every, watch.shortest, watch.longest) IS NOT DISTINCT FROM
            (EXCLUDED.url, EXCLUDED.request_headers, EXCLUDED.every, EXCLUDED.shortest, EXCLUDED.longest)
            THEN watch.next_at
        ELSE least(watch.next_at, EXCLUDED.next_at)
    END,
    body_hash = CASE
        WHEN (watch.url, watch.request_headers) IS NOT DISTINCT FROM (EXCLUDED.url, EXCLUDED.request_headers)
            THEN watch.body_hash
    END,
    body_id = CASE
        WHEN (watch.url, watch.request_headers) IS NOT DISTINCT FROM (EXCLUDED.url, EXCLUDED.request_headers)
            THEN watch.body_id
    END
RETURNING watch.xmax = 0 AS is_new
