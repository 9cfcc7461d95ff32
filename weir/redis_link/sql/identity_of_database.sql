-- Return a short name of this database, if notifications are not installed: as identity_of_installation.sql, but
-- without the installation's name.
SELECT left(encode(sha256(convert_to(concat_ws(' ',
    (SELECT system_identifier FROM pg_control_system()),
    (SELECT oid FROM pg_database WHERE datname = current_database())
), 'UTF8')), 'hex'), 12) AS identity
