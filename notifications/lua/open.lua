-- Make sure that an epoch is open that is above all flushed ones. Returns {incarnation, key, ...}, with the keys that
-- are strange: they are not as our scripts leave them, because another program has written to them.
-- KEYS: epoch, open, sealed, deltas, incarnation, calls.
-- ARGV: the highest epoch that was flushed; a random name; an incarnation to be replaced, or nothing.
--
-- If Redis has no epoch, it is new or lost its memory. Deltas that were added since then are kept. If the open epoch
-- was flushed already, or the incarnation is to be replaced, Redis came back older than it was. Its open deltas may
-- have been flushed, and are removed. They are also removed if a key is strange. In each of these cases deltas are
-- lost, and the new incarnation tells all readers so.
--
-- The new epoch is above all earlier ones. So it is above the highest flushed epoch and also, because epochs that were
-- never flushed are unknown, at or above the time in microseconds. The incarnation's name begins with its first epoch.
local floor = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local strange = {}

-- Call a command and return its answer; if the key has another type, note the key as strange, and return nil.
local function read(command, key, ...)
    local answer = redis.pcall(command, key, ...)
    if answer and answer.err and string.find(answer.err, 'WRONGTYPE', 1, true) then
        strange[#strange + 1] = key
        return nil
    end
    return answer and answer.err and redis.call(command, key, ...) or answer -- redis.call raises other errors
end

-- Return the text of a key and the number with which it begins; if there is no such number, or it is out of range, note
-- the key as strange, and return nil.
local function numbered(key, form, least, most)
    local text = read('GET', key)
    local number = text and tonumber(string.match(text, form))
    if text and not (number and number >= least and number <= most) then
        strange[#strange + 1] = key
        return nil
    end
    return text, number
end

local a_day = 86400 * 1000000 -- the server's clock may have been set back by so much since the epoch was opened
local _, epoch = numbered(KEYS[1], '^([1-9]%d*)$', 1, math.max(floor, now) + a_day)
numbered(KEYS[3], '^([1-9]%d*)$', (epoch or 2) - 1, (epoch or math.huge) - 1) -- the epoch before the open one
-- The random part of an incarnation's name is as long as the name in ARGV.
local incarnation = numbered(KEYS[5], '^([1-9]%d*)%-' .. string.rep('[0-9a-f]', #ARGV[2]) .. '$', 1, epoch or math.huge)
for _, place in ipairs({2, 4, 6}) do -- these keys must be sorted sets, if they exist
    read('ZMSCORE', KEYS[place], '')
end

if #strange == 0 and epoch and incarnation and epoch > floor and incarnation ~= ARGV[3] then
    return {incarnation}
end
if epoch or #strange > 0 then
    redis.call('UNLINK', KEYS[2])
end
-- This runs even if there is nothing to remove: after this write, a full Redis does not refuse the next writes.
redis.call('UNLINK', KEYS[3], KEYS[4], unpack(strange))
local first = string.format('%.0f', math.max(floor + 1, now, (epoch or 0) + 1))
redis.call('SET', KEYS[1], first)
redis.call('SET', KEYS[5], first .. '-' .. ARGV[2])
return {first .. '-' .. ARGV[2], unpack(strange)}
