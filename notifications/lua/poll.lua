-- Return the sum of a user's deltas since an epoch was open. Reads only.
-- KEYS: epoch, sealed, incarnation, watch, open, deltas, past:0, past:1, ... ARGV: user, epoch.
-- Returns {version, incarnation, open epoch, the user's delta in it, sum of the user's deltas from the asked epoch on}.
-- Returns nothing if the sum is not known, because no flush has called watch.lua lately, or because the asked epoch or
-- a later one is not kept any more.
local epoch, sealed, incarnation, watch = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4]))
local version = watch and string.match(watch, '^%S+ (%S+) ')
local open, first, kept = tonumber(epoch), tonumber(ARGV[2]), #KEYS - 6
if not (version and incarnation and open and first) or first > open or open - first > kept then
    return false
end
local delta = tonumber(redis.call('ZMSCORE', KEYS[5], ARGV[1])[1] or 0)
local sum = delta
for past = open - 1, first, -1 do
    local score
    if tonumber(sealed) == past then
        score = redis.call('ZMSCORE', KEYS[6], ARGV[1])[1]
    else -- a kept epoch: its member '', which is not a user, has the epoch's number as its score (drop.lua)
        local found = redis.pcall('ZMSCORE', KEYS[7 + past % kept], '', ARGV[1])
        if found.err or tonumber(found[1]) ~= past then
            return false
        end
        score = found[2]
    end
    sum = sum + tonumber(score or 0)
end
return {version, incarnation, epoch, string.format('%.17g', delta), string.format('%.17g', sum)}
