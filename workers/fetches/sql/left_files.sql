-- Read files that no kept body names: those of deleted bodies, and those that were noted more than `older_than` seconds
-- ago, and never kept; none of the storages that have `failed`. The longest noted come first.
SELECT name, storage FROM weir_fetches_bodyfile
WHERE noted_at < (SELECT clock_timestamp()) - make_interval(secs => %(older_than)s::float8)
    AND storage <> ALL(%(failed)s::text[])
ORDER BY noted_at, name
LIMIT %(batch)s
