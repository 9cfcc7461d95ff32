-- Record, for ten seconds, the state of PostgreSQL's part of unread numbers; return the marker of the server's run.
-- KEYS: watch. ARGV: the state, as a text; a random version, in case the text has changed; a marker, or nothing.
-- If no marker is given, the stored marker stays. Returns '', and records nothing, if no marker is given or stored, or
-- if Redis is full or takes no writes, which does not count as an outage of Redis.
local kept = redis.pcall('GET', KEYS[1])
local marker, version, text = string.match(type(kept) == 'string' and kept or '', '^(%S+) (%S+) (.*)$')
if ARGV[3] ~= '' then
    marker, version = ARGV[3], nil
end
if not marker then
    return ''
end
if not version or text ~= ARGV[1] then
    version = ARGV[2]
end
local noted = redis.pcall('SET', KEYS[1], marker .. ' ' .. version .. ' ' .. ARGV[1], 'EX', 10)
return noted.err and '' or marker
