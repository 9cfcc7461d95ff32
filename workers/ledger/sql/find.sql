-- Returns the id of the effect with this kind and key; no row if there is none.
SELECT id FROM {table} WHERE kind = %(kind)s AND key = %(key)s
