-- Put a file that its storage did not delete behind the other left files.
UPDATE weir_fetches_bodyfile SET noted_at = clock_timestamp() - make_interval(secs => %(older_than)s::float8)
WHERE name = %(name)s
RETURNING name
