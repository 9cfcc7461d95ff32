-- Find the sites of these names. Reads only.
SELECT id, name FROM weir_ratelimit_site WHERE name = ANY(%(names)s::text[])
