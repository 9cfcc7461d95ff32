-- Start nothing at the site for some time, for one of three reasons. It refused the start in `slot` (NULL: the caller
-- decided to back off). Or it could not be reached: then `error` says why, and otherwise is ''. Or a quota is used up,
-- and nothing was refused (`is_refusal` is false). `reason` is the site's answer.
-- Refusals in slots that were reserved before the last back-off belong to that back-off: all of them count once.
-- A stated time counts from now, and the longest one holds. If no time is stated, or if `until` has passed, the time is
-- `shortest` seconds, doubled for each earlier back-off in a row, `longest` at most, and up to half longer by `chance`.
-- The series of back-offs ends when the site has refused nothing for as long as the next back-off would last, and for
-- at least `quiet` seconds. A used-up quota adds nothing to the series, and does not keep the series from ending: if
-- the quota holds longer than the refusals, `refused_until` is the end of the refusals. It is NULL if
-- `backed_off_until` is the end of the refusals.
-- A site that refuses a start in a slot is silent until it answers another one (note_answers.sql).
-- Recalls the reserved slots. The site's row is locked before anything is computed (locked clock). The statement waits
-- for the lock no longer than `patience`, and then fails (0: no limit). Returns no row if nothing changed, or if there
-- is no such site.
--
-- patience  sets the timeout of the lock
-- locked    the site's row
-- timed     the row, with the clock that was read under the lock, and the stated time in seconds
-- counted   how many back-offs in a row this is
-- decided   the end of this back-off
-- changing  whether that changes anything
-- recalled  the last slot that is void
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true)
), locked AS MATERIALIZED (
    SELECT
        id, backed_off_until, coalesce(refused_until, backed_off_until) AS refused_until, backoff_level, backoff_error,
        backoff_reason, backed_off_slot, is_silent,
        %(is_refusal)s AND (%(slot)s::bigint IS NULL OR %(slot)s > backed_off_slot) AS is_new
    FROM patience, weir_ratelimit_site
    WHERE name = %(site)s
    FOR NO KEY UPDATE OF weir_ratelimit_site
), timed AS MATERIALIZED (
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
            WHEN NOT %(is_refusal)s THEN CASE WHEN backoff_error = '' THEN backoff_level ELSE 0 END
            WHEN NOT is_new THEN backoff_level
            WHEN (backoff_error = '') <> (%(error)s = '') THEN 1  -- the site was unreachable and refuses now, or the reverse
            WHEN refused_until < now - make_interval(
                secs => greatest(%(quiet)s::float8, least(%(longest)s::float8, %(shortest)s::float8 * 2 ^ backoff_level))
            ) THEN 1
            ELSE least(backoff_level + 1, 30)
        END AS level
    FROM timed
), decided AS (
    SELECT
        counted.*,
        now + make_interval(secs => CASE
            WHEN stated IS NOT NULL THEN least(stated, %(most)s::float8)
            WHEN is_new THEN
                least(%(longest)s::float8, %(shortest)s::float8 * 2 ^ (level - 1)) * (1 + %(chance)s::float8 / 2)
            ELSE 0
        END) AS until
    FROM counted
), changing AS (
    SELECT decided.*, until > greatest(backed_off_until, now) AS is_longer
    FROM decided
    WHERE is_new OR until > greatest(backed_off_until, now)
), recalled AS (
    SELECT nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')) AS slot FROM changing
)
UPDATE weir_ratelimit_site AS site
SET backed_off_until = greatest(changing.backed_off_until, changing.until),
    refused_until = CASE
        WHEN NOT %(is_refusal)s THEN coalesce(changing.refused_until, %(long_ago)s)
        WHEN NOT is_longer THEN nullif(greatest(changing.refused_until, changing.until), changing.backed_off_until)
    END,
    backoff_level = changing.level,
    backoff_error = %(error)s,
    backoff_reason = CASE WHEN is_longer THEN %(reason)s ELSE changing.backoff_reason END,
    backed_off_slot = CASE WHEN %(is_refusal)s THEN recalled.slot ELSE changing.backed_off_slot END,
    is_silent = changing.is_silent OR %(is_refusal)s AND %(slot)s::bigint IS NOT NULL,
    recalled_slot = recalled.slot,
    recalled_at = changing.now
FROM changing, recalled
WHERE site.id = changing.id
RETURNING site.id, extract(epoch FROM site.backed_off_until - changing.now)::float8 AS wait_s
