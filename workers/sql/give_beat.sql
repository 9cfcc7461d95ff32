-- Delete the lease of beat if `holder` has it. Returns a row if it had the lease.
DELETE FROM weir_workers_beatlease WHERE holder = %(holder)s RETURNING id
