-- Delete the row of a process that ends in order. Returns the id of the row, if there was one.
DELETE FROM weir_processes_process WHERE id = %(process)s RETURNING id
