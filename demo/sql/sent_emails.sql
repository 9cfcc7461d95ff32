-- The e-mails that the mail server has accepted, by the database; compared with the mail server's own list.
SELECT message_id FROM weir_mail_email WHERE state = 'sent'
