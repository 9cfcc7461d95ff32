-- The e-mails that Weir says the mail server accepted, to be compared with the server's own list.
SELECT message_id FROM mail_email WHERE state = 'sent'
