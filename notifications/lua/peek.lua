-- Read the live deltas of some users, all at one moment. KEYS: epoch, sealed, incarnation. ARGV: users.
-- Returns {incarnation, {epoch, {delta, ...}}, {epoch, {delta, ...}}}: of the open epoch and, if there is one, of the
-- sealed one; nil where Redis has no epoch.
local epoch, sealed, incarnation = unpack(redis.call('MGET', unpack(KEYS)))
if not epoch or not incarnation then
    return false
end
local function deltas_of(live)
    return {live, redis.call('ZMSCORE', '{unread}:deltas:' .. live, unpack(ARGV))}
end
return {incarnation, deltas_of(epoch), sealed and deltas_of(sealed) or nil}
