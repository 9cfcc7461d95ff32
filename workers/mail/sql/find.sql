-- Returns the id of the e-mail of a kind and key.
SELECT id FROM weir_mail_email WHERE kind = %(kind)s AND key = %(key)s
