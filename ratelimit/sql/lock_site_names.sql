-- Wait until no other transaction changes which site a host belongs to, and keep other transactions from such changes
-- until this transaction ends. Transactions that only create sites (`shared`) do not wait for each other. The statement
-- waits no longer than `patience`, and then fails (0: no limit). The limit also holds for later statements of the
-- transaction. Execute this before the statement that looks at sites, so that the latter has a newer snapshot.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
)
SELECT CASE WHEN %(shared)s THEN pg_advisory_xact_lock_shared(%(lock)s) ELSE pg_advisory_xact_lock(%(lock)s) END
FROM patience
