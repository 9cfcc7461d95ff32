-- Lock kept bodies that no store holds (skip locked, docs/explanation/sql.md), and that are older than `young` seconds: a
-- store may refer to one that another has just inserted without holding it.
SELECT sha256 FROM weir_fetches_keptbody
WHERE sha256 = ANY(%(released)b::bytea[])
    AND kept_at < (SELECT clock_timestamp()) - make_interval(secs => %(young)s::float8)
ORDER BY sha256
FOR UPDATE SKIP LOCKED
