-- Forget a process that ends in order. Returns the id of its row, if there was one.
DELETE FROM weir_processes_process WHERE id = %(process)s RETURNING id
