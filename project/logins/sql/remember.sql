-- Record that the account has logged in from the address.
--
-- forgotten: deletes addresses that were recorded too long ago, up to a hundred, so that the table stays small
WITH forgotten AS (
    DELETE FROM weir_logins_knownaddress
    WHERE key IN (
        SELECT key
        FROM weir_logins_knownaddress
        WHERE known_until < clock_timestamp() AND key <> %(key)s
        ORDER BY known_until
        LIMIT 100
        FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO weir_logins_knownaddress AS known (key, known_until)
VALUES (%(key)s, clock_timestamp() + %(known_for)s)
ON CONFLICT (key) DO UPDATE SET known_until = excluded.known_until
