-- Notes that an e-mail's transmission begins now: from here on nobody takes it back. No row: the claim is lost.
UPDATE orders_shippedemail
SET state = 'sending', claimed_until = NULL, sending_since = clock_timestamp(), phase = 'begun', last_reply = ''
WHERE id = %(email)s AND claim_token = %(token)s AND state = 'claimed'
RETURNING id
