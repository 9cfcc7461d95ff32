-- Record, for ten seconds, what PostgreSQL alone decides of unread numbers; return the marker of the server's run.
-- KEYS: watch. ARGV: that state, as a text; a random version, in case the text has changed; a marker, or nothing.
-- Without a marker, the stored one stays. Returns '' if none is stored, or the server is full: nothing was recorded.
-- A Redis that is full, or takes no writes, records nothing: that is not an outage of Redis.
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
