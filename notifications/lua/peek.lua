-- Read the live deltas of some users, all at one moment. KEYS: epoch, sealed, incarnation, open, deltas.
-- ARGV: users.
-- Returns {incarnation, {epoch, {delta, ...}}, {epoch, {delta, ...}}}, with the open epoch first and then, if there is
-- one, the sealed epoch. Returns nil if Redis has no epoch.
local epoch, sealed, incarnation = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[3]))
if not epoch or not incarnation then
    return false
end
local answer = {incarnation, {epoch, redis.call('ZMSCORE', KEYS[4], unpack(ARGV))}}
if sealed then
    answer[3] = {sealed, redis.call('ZMSCORE', KEYS[5], unpack(ARGV))}
end
return answer
