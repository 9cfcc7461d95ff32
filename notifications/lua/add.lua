-- Add deltas to the open epoch. KEYS: epoch. ARGV: user, delta, user, delta, ...
-- Returns the epoch; nil, with nothing done, where Redis has none (it is new, or lost its memory).
local epoch = redis.call('GET', KEYS[1])
if not epoch then
    return false
end
for place = 1, #ARGV, 2 do
    redis.call('ZINCRBY', '{unread}:deltas:' .. epoch, ARGV[place + 1], ARGV[place])
end
return epoch
