-- Close the open epoch, if it has deltas, and open the next. KEYS: epoch, sealed.
-- Returns {epoch, fresh} of the one sealed epoch that there can be at a time: fresh is 1 where this call sealed it, 0
-- where it waited already (its flusher is at work, or died). Returns nil where there is nothing to flush.
local sealed = redis.call('GET', KEYS[2])
if sealed then
    return {sealed, 0}
end
local epoch = redis.call('GET', KEYS[1])
if not epoch or redis.call('EXISTS', '{unread}:deltas:' .. epoch) == 0 then
    return false
end
redis.call('SET', KEYS[2], epoch)
redis.call('INCR', KEYS[1])
return {epoch, 1}
