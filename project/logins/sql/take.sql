-- Count an attempt by its key's clock (GCRA), or say how many seconds too soon it comes.
--
-- Promises: two attempts at the same time count as two; one that comes too soon changes nothing.
--
-- forgotten: clocks that have run out, which say nothing any more; a hundred at a time, so that the table stays small
-- taken: the clock, put forward; empty if the attempt comes too soon
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
