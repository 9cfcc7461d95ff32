-- Records that a relay has accepted an e-mail although the worker that sent it has lost its claim: an acceptance is
-- never thrown away. If another worker is transmitting the e-mail once more, the acceptance is kept in `earlier_reply`,
-- where `record` finds it.
UPDATE weir_mail_email
SET
    state = CASE WHEN state = 'sending' THEN state ELSE 'sent' END,
    earlier_reply = CASE WHEN state = 'sending' THEN %(last_reply)s ELSE '' END,
    last_reply = CASE WHEN state = 'sending' THEN last_reply ELSE %(last_reply)s END,
    claimed_until = NULL,
    claim_token = CASE WHEN state = 'sending' THEN claim_token END,
    sending_since = CASE WHEN state = 'sending' THEN sending_since END,
    sent_at = CASE WHEN state = 'sending' THEN sent_at ELSE clock_timestamp() END,
    ended_at = CASE WHEN state = 'sending' THEN ended_at ELSE clock_timestamp() END,
    provider_id = CASE WHEN %(provider_id)s::text = '' THEN provider_id ELSE %(provider_id)s::text END,
    ask_until = NULL
WHERE id = %(email)s AND state NOT IN ('sent', 'bounced')
RETURNING id
