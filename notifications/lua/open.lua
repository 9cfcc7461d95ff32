-- Make sure that an epoch is open that PostgreSQL has not passed. Returns the incarnation.
-- KEYS: epoch, open, sealed, incarnation.
-- ARGV: the highest epoch that was flushed; a random name; an incarnation to be replaced, or nothing.
--
-- Without an epoch, Redis is new or lost its memory; deltas that were added since then are kept. With an epoch that was
-- flushed already, or an incarnation to be replaced, Redis came back older than it was; its open deltas may have been
-- flushed, and are removed. Either way deltas are lost, and the new incarnation tells all readers so.
--
-- The next epoch is above all that ever were: above the highest that was flushed and, as those that were never flushed
-- are unknown, above the time in microseconds. The incarnation's name begins with its first epoch.
local floor = tonumber(ARGV[1])
local epoch = redis.call('GET', KEYS[1])
local incarnation = redis.call('GET', KEYS[4])
if epoch and incarnation and tonumber(epoch) > floor and incarnation ~= ARGV[3] then
    return incarnation
end
if epoch then
    redis.call('UNLINK', KEYS[2])
end
local sealed = redis.call('GET', KEYS[3])
if sealed then
    redis.call('UNLINK', '{unread}:deltas:' .. sealed)
    redis.call('DEL', KEYS[3])
end
local time = redis.call('TIME')
local new = math.max(floor + 1, tonumber(time[1]) * 1000000 + tonumber(time[2]), (tonumber(epoch or 0)) + 1)
local first = string.format('%.0f', new)
redis.call('SET', KEYS[1], first)
redis.call('SET', KEYS[4], first .. '-' .. ARGV[2])
return first .. '-' .. ARGV[2]
