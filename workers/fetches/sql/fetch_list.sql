-- Find the next `most` fetches of a list that meet all filters, after the place of a cursor. Reads only.
-- Promises: at most `look` rows are looked at, in the order of an index. Rows that meet all filters have `matches`. The
-- last row that was looked at is returned in any case, so that the next page can begin after it. Run after
-- planner.in_index_order.
-- `way` selects the index, and so the order. PostgreSQL plans the statement with the values, so that one branch is
-- left. No other index has that order; (SELECT 'failed') keeps PostgreSQL from seeing that weir_fetch_not_done has such
-- rows, too.
-- Each state has a branch of its own: PostgreSQL merges the branches in their order, and reads each no further than the
-- page needs. One branch for all states would read, and sort, `look` rows of each state.
--
-- newest         all fetches, the newest first
-- held           fetches that are held, the newest first; there are never more than a few seconds' worth
-- queued         queued fetches, the newest first
-- queue          queued fetches of a site, in the order in which they start
-- ended          fetches that ended, the last end first
-- not done       fetches that failed or were cancelled, the last end first
-- ended at site  fetches that ended at a site, the last end first
-- batch          fetches of a batch that are in one state, the newest first
-- by reference   fetches of a reference, the newest first
-- by URL         fetches that are not held and whose URL begins with a text, by URL, from the last to the first
SELECT id, finished_at, priority, not_before, created_at, url_key, place, matches
FROM (
    SELECT
        id, finished_at, priority, not_before, created_at, left(url, 100) AS url_key,
        row_number() OVER () AS place,
        state = ANY(%(states)s::text[])
            AND (%(site)s::bigint IS NULL OR coalesce(site_id = %(site)s::bigint, false))
            AND coalesce(finished_at, %(since)s) BETWEEN %(since)s AND %(until)s
            AND (%(url)s = '' OR CASE %(url_match)s
                WHEN 'exact' THEN url = %(url)s
                WHEN 'beginning' THEN starts_with(url, %(url)s)
                ELSE strpos(lower(url), lower(%(url)s)) > 0
            END)
            AND CASE
                WHEN right(%(error)s, 1) = '*' THEN starts_with(lower(error), lower(rtrim(%(error)s, '*')))
                ELSE strpos(lower(error), lower(%(error)s)) > 0
            END
            AND (%(share)s = '' OR coalesce(share = %(share)s, false))
            AND (%(reference)s = '' OR coalesce(reference = %(reference)s, false))
            AND (%(status)s::int IS NULL OR coalesce(status_code = %(status)s::int, false))
            AND (%(batch)s::bigint IS NULL OR coalesce(batch_id = %(batch)s::bigint, false)) AS matches
    FROM (
        (
            SELECT *
            FROM weir_fetches_fetch
            WHERE %(way)s = 'newest' AND id < %(id)s
            ORDER BY id DESC
            LIMIT %(look)s
        )
        UNION ALL
        (
            SELECT *
            FROM (
                SELECT *
                FROM weir_fetches_fetch
                WHERE %(way)s = 'held' AND state IN ('reserved', 'running')
                ORDER BY site_id, lease_until
                LIMIT %(look)s
            ) AS held
            WHERE id < %(id)s
            ORDER BY id DESC
        )
        UNION ALL
        (
            SELECT *
            FROM weir_fetches_fetch
            WHERE %(way)s = 'queued' AND state = 'queued' AND finished_at IS NULL  -- weir_fetch_newest_queued
                AND (created_at, id) < (%(created_at)s, %(id)s)
            ORDER BY created_at DESC, id DESC
            LIMIT %(look)s
        )
        UNION ALL
        (
            SELECT *
            FROM (
                (
                    SELECT *
                    FROM weir_fetches_fetch
                    WHERE %(way)s = 'queue' AND state = 'queued' AND site_id = %(site)s AND priority = %(priority)s::int
                        AND (not_before, id) > (%(not_before)s, %(id)s)
                    ORDER BY priority DESC, not_before, id
                    LIMIT %(look)s
                )
                UNION ALL
                (
                    SELECT *
                    FROM weir_fetches_fetch
                    WHERE %(way)s = 'queue' AND state = 'queued' AND site_id = %(site)s AND priority < %(priority)s::int
                    ORDER BY priority DESC, not_before, id
                    LIMIT %(look)s
                )
            ) AS queue
            ORDER BY priority DESC, not_before, id
            LIMIT %(look)s
        )
        UNION ALL
        (
            SELECT *
            FROM weir_fetches_fetch
            WHERE %(way)s = 'ended' AND finished_at BETWEEN %(since)s AND %(until)s
                AND (finished_at, id) < (%(finished_at)s, %(id)s)
            ORDER BY finished_at DESC, id DESC
            LIMIT %(look)s
        )
        UNION ALL
        (
            SELECT *
            FROM (
                (
                    SELECT *
                    FROM weir_fetches_fetch
                    WHERE %(way)s = 'not done' AND 'failed' = ANY(%(states)s::text[]) AND state = 'failed'
                        AND finished_at BETWEEN %(since)s AND %(until)s AND (finished_at, id) < (%(finished_at)s, %(id)s)
                    ORDER BY finished_at DESC, id DESC
                    LIMIT %(look)s
                )
                UNION ALL
                (
                    SELECT *
                    FROM weir_fetches_fetch
                    WHERE %(way)s = 'not done' AND 'cancelled' = ANY(%(states)s::text[]) AND state = 'cancelled'
                        AND finished_at BETWEEN %(since)s AND %(until)s AND (finished_at, id) < (%(finished_at)s, %(id)s)
                    ORDER BY finished_at DESC, id DESC
                    LIMIT %(look)s
                )
            ) AS not_done
            ORDER BY finished_at DESC, id DESC
            LIMIT %(look)s
        )
        UNION ALL
        (
            SELECT *
            FROM (
                (
                    SELECT *
                    FROM weir_fetches_fetch
                    WHERE %(way)s = 'ended at site' AND 'done' = ANY(%(states)s::text[]) AND state = (SELECT 'done')
                        AND site_id = %(site)s AND finished_at BETWEEN %(since)s AND %(until)s
                        AND (finished_at, id) < (%(finished_at)s, %(id)s)
                    ORDER BY finished_at DESC, id DESC
                    LIMIT %(look)s
                )
                UNION ALL
                (
                    SELECT *
                    FROM weir_fetches_fetch
                    WHERE %(way)s = 'ended at site' AND 'failed' = ANY(%(states)s::text[]) AND state = (SELECT 'failed')
                        AND site_id = %(site)s AND finished_at BETWEEN %(since)s AND %(until)s
                        AND (finished_at, id) < (%(finished_at)s, %(id)s)
                    ORDER BY finished_at DESC, id DESC
                    LIMIT %(look)s
                )
                UNION ALL
                (
                    SELECT *
                    FROM weir_fetches_fetch
                    WHERE %(way)s = 'ended at site' AND 'cancelled' = ANY(%(states)s::text[]) AND state = (SELECT 'cancelled')
                        AND site_id = %(site)s AND finished_at BETWEEN %(since)s AND %(until)s
                        AND (finished_at, id) < (%(finished_at)s, %(id)s)
                    ORDER BY finished_at DESC, id DESC
                    LIMIT %(look)s
                )
            ) AS ended_at_site
            ORDER BY finished_at DESC, id DESC
            LIMIT %(look)s
        )
        UNION ALL
        (
            SELECT *
            FROM weir_fetches_fetch
            WHERE %(way)s = 'batch' AND batch_id IS NOT NULL
                AND (batch_id, state, id) < (%(batch)s, %(of_state)s, %(id)s)
                AND (batch_id, state, id) > (%(batch)s, %(of_state)s, 0)
            ORDER BY batch_id DESC, state DESC, id DESC
            LIMIT %(look)s
        )
        UNION ALL
        (
            SELECT *
            FROM weir_fetches_fetch
            WHERE %(way)s = 'by reference' AND reference IS NOT NULL
                AND (reference, id) < (%(reference)s, %(id)s) AND reference >= %(reference)s
            ORDER BY reference DESC, id DESC
            LIMIT %(look)s
        )
        UNION ALL
        (
            SELECT *
            FROM weir_fetches_fetch
            WHERE %(way)s = 'by URL' AND NOT state IN ('reserved', 'running')
                AND left(url, 100) COLLATE "C" BETWEEN %(lowest)s AND %(highest)s
                AND (left(url, 100) COLLATE "C", id) < (%(url_key)s, %(id)s)
            ORDER BY left(url, 100) COLLATE "C" DESC, id DESC
            LIMIT %(look)s
        )
    ) AS looked
) AS judged
WHERE matches OR place = %(look)s
LIMIT %(most)s
