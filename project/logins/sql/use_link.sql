-- Use a link up. Promises: of two uses at the same time, one gets the row.
--
-- used: the link, deleted, good or not
WITH used AS (
    DELETE FROM weir_logins_link WHERE token_hash = %(token_hash)s RETURNING user_id, good_until
)
SELECT user_id FROM used WHERE good_until >= clock_timestamp()
