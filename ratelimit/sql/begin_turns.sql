-- Record that these sites have shares, which take turns there. A site that another transaction has locked is left alone
-- (skip locked, docs/explanation/sql.md): the next call records it, or the dispatch that gives a share its first turn.
UPDATE weir_ratelimit_site
SET turn_share = ''
WHERE id = ANY(ARRAY(
    SELECT id FROM weir_ratelimit_site
    WHERE id = ANY(%(sites)s::bigint[]) AND turn_share IS NULL
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
)) AND turn_share IS NULL
