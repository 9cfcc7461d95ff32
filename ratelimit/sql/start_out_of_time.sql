-- Record starts that were written out of their time, and set the clocks of their sites behind them. The parameters
-- have, for each site, its name, how many starts there were, the slot of the last start, and how many seconds ago
-- (`agos`), at least, this start was written.
-- Promises: from the commit on, nothing is reserved at a site sooner than an interval after the last of its starts.
-- With a burst, each of them counts as one start more than what was reserved (GCRA). `agos` was computed before the
-- statement was sent, but counts from a clock that is read under the locks (safe duration, locked clock). So a start
-- may count as later than it was, never as earlier. If slots are reserved behind the run of the last start, they may
-- come too close to it, and all slots of the site are recalled (site first). Back-offs and pauses do not change.
-- Sites that another transaction has locked are left out (skip locked), and are not returned.
--
-- told    what is to be recorded
-- locked  the sites, locked
-- timed   the same, with the clock, and the end of the run of the last start (NULL: the run was recalled)
-- judged  the same, with the consequences: whether the start is recent enough to count, and whether slots are recalled
-- noted   the sites, changed
-- total   the total of all sites
WITH told AS MATERIALIZED (
    SELECT *
    FROM unnest(%(names)s::text[], %(starts)s::bigint[], %(slots)s::bigint[], %(agos)s::float8[])
        AS told (name, starts, slot_id, ago_s)
), locked AS MATERIALIZED (
    SELECT id, name, next_start, burst, effective_interval, recalled_slot
    FROM weir_ratelimit_site
    WHERE name = ANY(%(names)s::text[])
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
), timed AS MATERIALIZED (
    SELECT
        locked.*, told.starts, run.use_until,
        clock_timestamp() AS now,
        clock_timestamp() - make_interval(secs => told.ago_s) AS started_at
    FROM locked
    JOIN told USING (name)
    LEFT JOIN LATERAL (  -- row look-up (docs/explanation/sql.md); an old slot may be purged
        SELECT use_until FROM weir_ratelimit_slot
        WHERE id = told.slot_id AND site_id = locked.id AND id > locked.recalled_slot
        OFFSET 0
    ) AS run ON true
), judged AS MATERIALIZED (
    SELECT
        timed.*,
        started_at + burst * effective_interval > now AS counts,
        started_at + burst * effective_interval > now AND next_start - effective_interval > greatest(now, use_until)
            AS recalls
    FROM timed
), noted AS (
    UPDATE weir_ratelimit_site AS site
    SET next_start = CASE
            WHEN NOT counts THEN site.next_start
            WHEN site.burst = 1 THEN greatest(site.next_start, started_at + site.effective_interval)
            ELSE greatest(site.next_start, started_at) + least(starts, site.burst) * site.effective_interval
        END,
        recalled_slot = CASE
            WHEN recalls THEN nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')) ELSE site.recalled_slot
        END,
        recalled_at = CASE WHEN recalls THEN now ELSE site.recalled_at END,
        starts_out_of_time = site.starts_out_of_time + starts,
        out_of_time_at = greatest(site.out_of_time_at, started_at)
    FROM judged
    WHERE site.id = judged.id
    RETURNING
        site.name, starts, recalls,
        extract(epoch FROM
            site.next_start - weir_ratelimit_tolerance(site.burst, site.effective_interval) - now
        )::float8 AS wait_s
), total AS (
    INSERT INTO weir_ratelimit_starttotal AS total (id, out_of_time)
    SELECT 1, sum(starts) FROM noted HAVING count(*) > 0
    ON CONFLICT (id) DO UPDATE SET out_of_time = total.out_of_time + excluded.out_of_time
)
SELECT name, recalls, wait_s FROM noted
