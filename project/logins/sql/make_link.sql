-- Store a link's hash, and delete links that are too old.
--
-- forgotten: deletes links that were not used in time
WITH forgotten AS (
    DELETE FROM weir_logins_link WHERE good_until < clock_timestamp()
)
INSERT INTO weir_logins_link (token_hash, user_id, good_until)
VALUES (%(token_hash)s, %(user)s, clock_timestamp() + %(good_for)s)
