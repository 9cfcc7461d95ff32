-- Record that a user is to be forgotten, and remove the user's read mark.
WITH mark AS (
    DELETE FROM weir_notifications_readmark WHERE user_id = %(user)s
)
INSERT INTO weir_notifications_forgottenuser AS old (user_id, forgotten_at) VALUES (%(user)s, statement_timestamp())
ON CONFLICT (user_id) DO UPDATE SET forgotten_at = excluded.forgotten_at, until_xid = NULL
