-- End a pause and a back-off. The clock does not change, so the interval since the last start holds.
-- Purge does not delete a site that a person has resumed.
UPDATE weir_ratelimit_site
SET paused_until = NULL, backed_off_until = NULL, backoff_level = 0, backoff_error = '',
    backoff_reason = '', refused_until = NULL, is_silent = false, is_kept = true
WHERE name = %(site)s
RETURNING id
