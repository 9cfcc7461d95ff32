-- Give up the lease of the beat that ticks, if `holder` has it. Returns a row, if so.
DELETE FROM weir_workers_beatlease WHERE holder = %(holder)s RETURNING id
