-- Takes these effects, for a lease, for the room that performs them in turns of its own. That room lets one process at a
-- time have the turn of an effect, so this takes an effect from a process that has claimed it and not begun it: that
-- process has lost the turn, and cannot begin any more.
-- Promises: no effect is taken that is begun, or has ended; none of a paused kind, or of one that the process does not
-- know (`kinds`); and none whose probe is asked what became of it.
UPDATE weir_effects_effect
SET
    state = 'claimed',
    claim_token = %(token)s,
    claimed_by = %(claimed_by)s,
    claimed_until = clock_timestamp() + %(lease)s
WHERE
    id = ANY(%(effects)s) AND state IN ('pending', 'claimed')
    AND kind = ANY(%(kinds)s::text[])
    AND (ask_until IS NULL OR kind <> ALL(%(probed)s::text[]))
    AND kind NOT IN (SELECT kind FROM weir_effects_pausedeffectkind)
    AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
RETURNING id
