-- Return a short name of this database, and of no other: not of one that was restored from its dump, or made with it as
-- the template, because the server or the oid differ then. A standby that is promoted keeps the name.
SELECT left(encode(sha256(convert_to(concat_ws(' ',
    (SELECT name FROM weir_notifications_installation),
    (SELECT system_identifier FROM pg_control_system()),
    (SELECT oid FROM pg_database WHERE datname = current_database())
), 'UTF8')), 'hex'), 12) AS identity
