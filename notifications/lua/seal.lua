-- Seal the open epoch, if it has deltas and no epoch is sealed yet, and open the next epoch.
-- KEYS: epoch, open, sealed, deltas, calls.
-- Returns {epoch, fresh} of the sealed epoch: `fresh` is 1 if this call sealed it, and 0 if it was sealed before (its
-- flusher is at work, or died). Returns nil if there is nothing to flush.
-- Calls past their deadline are forgotten, because add.lua would refuse to repeat them anyway.
-- RENAME comes first: a full Redis refuses a script whose first write needs memory, but not the writes after the first.
local sealed = redis.call('GET', KEYS[3])
if sealed then
    return {sealed, 0}
end
local epoch = redis.call('GET', KEYS[1])
if not epoch or redis.call('EXISTS', KEYS[2]) == 0 then
    return false
end
redis.call('RENAME', KEYS[2], KEYS[4])
redis.call('SET', KEYS[3], epoch)
redis.call('INCR', KEYS[1])
local time = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', time[1] * 1000000 + time[2] - 1)
return {epoch, 1}
