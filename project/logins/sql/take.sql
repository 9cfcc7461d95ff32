-- Count an attempt on the clock of its key (GCRA), or return how many seconds too soon the attempt comes.
--
-- Promises: two attempts at the same time count as two; an attempt that comes too soon does not move its clock.
--
-- forgotten: deletes up to a hundred clocks that have run out and limit nothing any more; the table stays small
-- taken: moves the clock forward; empty if the attempt comes too soon
WITH forgotten AS (
    DELETE FROM weir_logins_rate
    WHERE key IN (
        SELECT key
        FROM weir_logins_rate
        WHERE next_attempt < clock_timestamp() AND key <> %(key)s
        ORDER BY next_attempt
        LIMIT 100
        FOR UPDATE SKIP LOCKED
    )
), taken AS (
    INSERT INTO weir_logins_rate AS clock (key, next_attempt)
    VALUES (%(key)s, clock_timestamp() + %(interval)s)
    ON CONFLICT (key) DO UPDATE
    SET next_attempt = greatest(clock.next_attempt, clock_timestamp()) + %(interval)s
    WHERE clock.next_attempt <= clock_timestamp() + %(tolerance)s
    RETURNING key
)
SELECT CASE
    WHEN EXISTS (SELECT FROM taken) THEN 0
    ELSE greatest(1, extract(epoch FROM (
        SELECT next_attempt - %(tolerance)s - clock_timestamp() FROM weir_logins_rate WHERE key = %(key)s
    )))
END::float8 AS wait_s
