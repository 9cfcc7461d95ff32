-- Create the lane at this rate, or change its rate. NULL leaves a setting as it is.
-- The start that the lane is booked until keeps its distance from the last one at the *new* rate, so that a lane
-- which was slow is not bound by its old interval, and one that was fast is bound at once.
INSERT INTO ratelimit_site AS site
    (name, "interval", burst, max_concurrency, grace, covers_subdomains, has_backlog)
VALUES (
    %(site)s, %(interval)s, coalesce(%(burst)s, 1), %(max_concurrency)s, %(grace)s,
    coalesce(%(covers_subdomains)s, false), false
)
ON CONFLICT (name) DO UPDATE SET
    "interval" = EXCLUDED."interval",
    burst = coalesce(%(burst)s, site.burst),
    max_concurrency = coalesce(%(max_concurrency)s, site.max_concurrency),
    grace = coalesce(%(grace)s, site.grace),
    covers_subdomains = coalesce(%(covers_subdomains)s, site.covers_subdomains),
    next_start = site.next_start + (EXCLUDED."interval" - site."interval")
RETURNING id
