-- Close the open epoch, if it has deltas, and open the next. KEYS: epoch, open, sealed.
-- At most one epoch is sealed at a time. Returns {epoch, fresh} of it: fresh is 1 where this call sealed it, 0 where it
-- was sealed before (its flusher is at work, or died). Returns nil where there is nothing to flush.
local sealed = redis.call('GET', KEYS[3])
if sealed then
    return {sealed, 0}
end
local epoch = redis.call('GET', KEYS[1])
if not epoch or redis.call('EXISTS', KEYS[2]) == 0 then
    return false
end
redis.call('RENAME', KEYS[2], '{unread}:deltas:' .. epoch)
redis.call('SET', KEYS[3], epoch)
redis.call('INCR', KEYS[1])
return {epoch, 1}
