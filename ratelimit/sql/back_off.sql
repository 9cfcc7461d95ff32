-- Start nothing in the lane for `seconds`. By maximum: simultaneous calls count once, a shorter one never shortens.
UPDATE ratelimit_site
SET backed_off_until = greatest(backed_off_until, clock_timestamp() + make_interval(secs => %(seconds)s::float8))
WHERE name = %(site)s
RETURNING id
