-- Forget a process that ends in order.
DELETE FROM processes_process WHERE id = %(process)s
