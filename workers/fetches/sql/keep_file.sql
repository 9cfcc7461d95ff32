-- Keep a body whose file `name` was written: other fetches need not write it again. It takes the place of the bytes in
-- the row, or of the file `lost`, which cannot be read any more. Returns the file that has the body, which is another
-- one, if another process was first; purge then deletes this one. Returns nothing if that one is newer than the
-- statement: to be repeated.
-- Until an outcome refers to the body, it is released: purge asks about it when it is no longer young.
--
-- kept      the body, if nobody was first
-- found     the file that has it
-- known     this file, of which purge need know nothing more
-- left_over this file, if it is left over
-- released  the body
WITH kept AS (
    INSERT INTO weir_fetches_keptbody AS kept (sha256, size, storage, file)
    VALUES (%(sha256)s::bytea, %(size)s, %(in_storage)s, %(name)s)
    ON CONFLICT (sha256) DO UPDATE
    SET content = NULL, storage = EXCLUDED.storage, file = EXCLUDED.file, kept_at = clock_timestamp()
    WHERE kept.file IN ('', %(lost)s)
    RETURNING storage, file
), found AS MATERIALIZED (
    SELECT storage, file FROM kept
    UNION ALL
    SELECT storage, file FROM weir_fetches_keptbody WHERE sha256 = %(sha256)s::bytea AND NOT EXISTS (SELECT FROM kept)
), known AS (
    DELETE FROM weir_fetches_bodyfile WHERE name = %(name)s AND name IN (SELECT file FROM found)
), left_over AS (
    UPDATE weir_fetches_bodyfile SET noted_at = '-infinity'
    WHERE name = %(name)s AND EXISTS (SELECT FROM found) AND name NOT IN (SELECT file FROM found)
), released AS (
    INSERT INTO weir_fetches_releasedbody (sha256) SELECT %(sha256)s::bytea WHERE EXISTS (SELECT FROM kept)
)
SELECT storage, file FROM found
