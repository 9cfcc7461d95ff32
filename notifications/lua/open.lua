-- Make sure that an epoch is open that PostgreSQL has not passed. Returns {incarnation, key, ...}: the keys are those
-- that were not as our scripts leave them, because another program has written to them.
-- KEYS: epoch, open, sealed, deltas, incarnation, calls.
-- ARGV: the highest epoch that was flushed; a random name; an incarnation to be replaced, or nothing.
--
-- Without an epoch, Redis is new or lost its memory; deltas that were added since then are kept. With an epoch that was
-- flushed already, or an incarnation to be replaced, Redis came back older than it was; its open deltas may have been
-- flushed, and are removed. They are also removed if a key is strange. In each case deltas are lost, and the new
-- incarnation tells all readers so.
--
-- The next epoch is above all earlier ones: above the highest that was flushed and, because those that were never
-- flushed are unknown, above the time in microseconds. The incarnation's name begins with its first epoch.
local floor = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local strange = {}

-- Call a command; return nil, and note the key, if the key is of another type.
local function read(command, key, ...)
    local answer = redis.pcall(command, key, ...)
    if answer and answer.err and string.find(answer.err, 'WRONGTYPE', 1, true) then
        strange[#strange + 1] = key
        return nil
    end
    return answer and answer.err and redis.call(command, key, ...) or answer -- redis.call raises other errors
end

-- Return the text of a key and the number that it begins with; nil, and note the key, if the number is out of range.
local function numbered(key, form, least, most)
    local text = read('GET', key)
    local number = text and tonumber(string.match(text, form))
    if text and not (number and number >= least and number <= most) then
        strange[#strange + 1] = key
        return nil
    end
    return text, number
end

local a_day = 86400 * 1000000 -- the server's clock may have been set back by this since the epoch was opened
local _, epoch = numbered(KEYS[1], '^([1-9]%d*)$', 1, math.max(floor, now) + a_day)
numbered(KEYS[3], '^([1-9]%d*)$', (epoch or 2) - 1, (epoch or math.huge) - 1) -- the epoch before the open one
-- An incarnation has a name as long as the one that it would get here.
local incarnation = numbered(KEYS[5], '^([1-9]%d*)%-' .. string.rep('[0-9a-f]', #ARGV[2]) .. '$', 1, epoch or math.huge)
for _, place in ipairs({2, 4, 6}) do -- sorted sets, if they exist
    read('ZMSCORE', KEYS[place], '')
end

if #strange == 0 and epoch and incarnation and epoch > floor and incarnation ~= ARGV[3] then
    return {incarnation}
end
if epoch or #strange > 0 then
    redis.call('UNLINK', KEYS[2])
end
-- Even if there is nothing to remove: after this write, a full Redis does not refuse the next ones.
redis.call('UNLINK', KEYS[3], KEYS[4], unpack(strange))
local first = string.format('%.0f', math.max(floor + 1, now, (epoch or 0) + 1))
redis.call('SET', KEYS[1], first)
redis.call('SET', KEYS[5], first .. '-' .. ARGV[2])
return {first .. '-' .. ARGV[2], unpack(strange)}
