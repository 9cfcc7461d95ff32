-- Note a file to which a storage has given another name than it was asked for.
INSERT INTO weir_fetches_bodyfile (name, storage) VALUES (%(name)s, %(in_storage)s)
ON CONFLICT (name) DO NOTHING
RETURNING name
