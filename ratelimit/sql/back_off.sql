-- Start nothing in the lane for a while, because the site refused the start in `slot` (NULL: somebody says so).
-- Refusals of slots that were reserved before the last back-off belong to it: N at once count once. A stated time
-- counts from now, by maximum; without one, or where `until` has passed, the while is `shortest` seconds, twice as long
-- for each back-off in a row, at most `longest`, and up to half longer by `chance`. The row of back-offs is forgiven
-- when the lane stayed quiet for as long as the next one would have been, a minute at least.
-- Recalls what is reserved. The lane's row is locked before anything is reckoned; who holds it is waited for no longer
-- than `patience` (then the statement fails; 0: for ever). No row comes back where nothing changed, and where there is
-- no such lane.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
), locked AS MATERIALIZED (
    SELECT id, backed_off_until, backoff_level, %(slot)s::bigint IS NULL OR %(slot)s > backed_off_slot AS is_new
    FROM patience, ratelimit_site
    WHERE name = %(site)s
    FOR NO KEY UPDATE OF ratelimit_site
), timed AS MATERIALIZED (  -- reads the clock when the lock is held
    SELECT
        locked.*,
        clock_timestamp() AS now,
        coalesce(%(seconds)s::float8, nullif(greatest(extract(epoch FROM %(until)s::timestamptz - clock_timestamp()), 0), 0))
            AS stated
    FROM locked
), counted AS (
    SELECT
        timed.*,
        CASE
            WHEN NOT is_new THEN backoff_level
            WHEN backed_off_until < now - make_interval(
                secs => greatest(%(quiet)s::float8, least(%(longest)s::float8, %(shortest)s::float8 * 2 ^ backoff_level))
            ) THEN 1
            ELSE least(backoff_level + 1, 30)
        END AS level
    FROM timed
), decided AS (
    SELECT
        counted.*,
        greatest(backed_off_until, now + make_interval(secs => CASE
            WHEN stated IS NOT NULL THEN least(stated, %(most)s::float8)
            WHEN is_new THEN
                least(%(longest)s::float8, %(shortest)s::float8 * 2 ^ (level - 1)) * (1 + %(chance)s::float8 / 2)
            ELSE 0
        END)) AS until
    FROM counted
), booked AS (
    SELECT nextval(pg_get_serial_sequence('ratelimit_slot', 'id')) AS slot FROM decided
)
UPDATE ratelimit_site AS site
SET backed_off_until = decided.until,
    backoff_level = decided.level,
    backed_off_slot = booked.slot,
    recalled_slot = booked.slot,
    recalled_at = decided.now
FROM decided, booked
WHERE site.id = decided.id AND (decided.is_new OR decided.until > greatest(decided.backed_off_until, decided.now))
RETURNING site.id, extract(epoch FROM decided.until - decided.now)::float8 AS wait_s
