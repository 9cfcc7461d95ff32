-- Add deltas to the open epoch, unless the deadline is over, or the network has repeated a call. KEYS: open, calls.
-- ARGV: deadline, connection, user, delta, user, delta, ...
-- Deadline and answer are times on Redis' clock, in microseconds. The answer is negative if the deadline was over.
-- The deadlines of one connection only grow. So a call whose deadline is not above the connection's last one was
-- executed before.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then
    return -now
end
if redis.call('ZADD', KEYS[2], 'GT', 'CH', ARGV[1], ARGV[2]) == 1 then
    for place = 3, #ARGV, 2 do
        redis.call('ZINCRBY', KEYS[1], ARGV[place + 1], ARGV[place])
    end
end
return now
