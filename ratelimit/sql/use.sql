-- Record that the starts in these slots are made about now. Returns the slots that may be used, and for how many seconds
-- from the time at which this was asked: up to `confirmed_for`, and to `margin` before the end of their run. A slot that
-- was recalled, or given back, or whose run is over, is not returned, and does not change. May be executed twice.
-- A standby returns none, because it may not know of a recall yet.
UPDATE weir_ratelimit_slot AS slot
SET finished_at = coalesce(slot.finished_at, clock_timestamp())
FROM weir_ratelimit_slot AS meant
CROSS JOIN LATERAL (  -- newest version (docs/explanation/sql.md)
    SELECT recalled_slot FROM weir_ratelimit_site
    WHERE (id, name) >= (meant.site_id, '') AND id <= meant.site_id
    ORDER BY id DESC
    LIMIT 1
) AS site
WHERE meant.id = ANY(%(slots)s) AND slot.id = meant.id AND slot.id > site.recalled_slot AND slot.released_at IS NULL
    AND slot.use_until > clock_timestamp() + make_interval(secs => %(margin)s::float8)
    AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
RETURNING
    slot.id,
    least(
        %(confirmed_for)s::float8, extract(epoch FROM slot.use_until - clock_timestamp())::float8 - %(margin)s::float8
    ) AS within_s
