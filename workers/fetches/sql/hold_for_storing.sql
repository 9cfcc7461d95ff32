-- Keep a fetch for `storing` seconds while its body is written to a storage (fenced write), and note the file `name`, if
-- the body is not kept in a file already. Returns whether the fetch is still held, and the file that has the body.
-- Promises: purge leaves a file that is returned alone for long enough: a kept body that is not young any more becomes
-- young again. One that purge is deleting is waited for, and is not returned.
--
-- held   the fetch
-- known  the kept body, in a file
-- again  the same, if it was no longer young
-- noted  the file that will be written
WITH held AS (
    UPDATE weir_fetches_fetch
    SET lease_until = greatest(lease_until, clock_timestamp() + make_interval(secs => %(storing)s::float8))
    WHERE id = %(fetch)s AND slot_id = %(slot)s AND finished_at IS NULL
    RETURNING id
), known AS MATERIALIZED (
    SELECT sha256, storage, file, kept_at > clock_timestamp() - make_interval(secs => %(young)s::float8) AS is_young
    FROM weir_fetches_keptbody
    WHERE sha256 = %(sha256)s::bytea AND file <> ''
), again AS (
    UPDATE weir_fetches_keptbody AS kept SET kept_at = clock_timestamp()
    FROM known
    WHERE kept.sha256 = known.sha256 AND NOT known.is_young
    RETURNING kept.storage, kept.file
), found AS MATERIALIZED (
    SELECT storage, file FROM known WHERE is_young
    UNION ALL
    SELECT storage, file FROM again
), noted AS (
    INSERT INTO weir_fetches_bodyfile (name, storage)
    SELECT %(name)s::text, %(in_storage)s::text
    WHERE EXISTS (SELECT FROM held) AND NOT EXISTS (SELECT FROM found)
)
SELECT
    EXISTS (SELECT FROM held) AS is_held,
    coalesce((SELECT storage FROM found), '') AS storage,
    coalesce((SELECT file FROM found), '') AS file
