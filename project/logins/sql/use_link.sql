-- Use a link up, and return its user if the link was still good.
--
-- Promises: of two uses at the same time, one gets the row.
--
-- used: deletes the link, even if it is too old
WITH used AS (
    DELETE FROM weir_logins_link WHERE token_hash = %(token_hash)s RETURNING user_id, good_until
)
SELECT user_id FROM used WHERE good_until >= clock_timestamp()
