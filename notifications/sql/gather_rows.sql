-- Give each of these notifications to an e-mail of its own.
UPDATE weir_notifications_notification AS row SET digest_id = given.email_id
FROM unnest(%(ids)s::bigint[], %(emails)s::bigint[]) AS given(id, email_id)
WHERE row.id = given.id
