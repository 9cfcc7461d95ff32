-- Note that a process runs; its first turn. Returns the row's id.
INSERT INTO processes_process (kind, name, host, pid, version, holds)
VALUES (%(kind)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(holds)s)
RETURNING id
