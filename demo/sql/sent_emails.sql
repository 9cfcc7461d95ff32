-- The e-mails that the mail server is said to have accepted, to be compared with its own list.
SELECT message_id FROM orders_shippedemail WHERE state = 'sent'
