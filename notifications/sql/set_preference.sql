-- Store the channel that a user has chosen for a kind. Of two calls at the same time, the later one counts.
INSERT INTO weir_notifications_preference AS old (user_id, kind, channel)
VALUES (%(user)s::user_key, %(kind)s, %(channel)s)
ON CONFLICT (user_id, kind) DO UPDATE SET channel = excluded.channel, since = statement_timestamp()
WHERE old.channel <> excluded.channel
