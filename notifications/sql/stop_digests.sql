-- Let a user be told on the page of the kinds for which the user has chosen digests.
UPDATE weir_notifications_preference
SET channel = 'page', since = statement_timestamp()
WHERE user_id = %(user)s AND channel = 'digest'
