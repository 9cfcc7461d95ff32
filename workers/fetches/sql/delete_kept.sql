-- Delete the `locked` bodies that no fetch has any more. The snapshot is newer than the locks: a store that refers to
-- one of them has committed before, or finds none, and inserts it anew. Other `released` bodies are asked about again.
WITH gone AS (
    DELETE FROM weir_fetches_keptbody AS kept
    WHERE sha256 = ANY(%(locked)b::bytea[])
        AND (SELECT fetch_id FROM weir_fetches_fetchbody AS body WHERE body.sha256 = kept.sha256 LIMIT 1) IS NULL
    RETURNING storage, file
), files AS (
    INSERT INTO weir_fetches_bodyfile (name, storage, noted_at)
    SELECT file, storage, '-infinity' FROM gone WHERE file <> ''
    ON CONFLICT (name) DO NOTHING
), again AS (
    INSERT INTO weir_fetches_releasedbody (sha256)
    SELECT sha256 FROM weir_fetches_keptbody
    WHERE sha256 = ANY(%(released)b::bytea[]) AND sha256 <> ALL(%(locked)b::bytea[])
)
SELECT count(*) AS deleted FROM gone
