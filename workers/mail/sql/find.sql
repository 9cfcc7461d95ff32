-- Returns the id of the e-mail with this kind and key; no row if there is none.
SELECT id FROM weir_mail_email WHERE kind = %(kind)s AND key = %(key)s
