-- Notes that an e-mail's transmission begins now: from here on it is never taken back. No row: the claim is lost.
UPDATE mail_email
SET state = 'sending', claimed_until = NULL, sending_since = clock_timestamp(), phase = 'begun', last_reply = ''
WHERE id = %(email)s AND claim_token = %(token)s AND state = 'claimed'
RETURNING id
