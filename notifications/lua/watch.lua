-- Note, for ten seconds, what PostgreSQL alone decides of unread numbers, and return the marker of this run of the server.
-- KEYS: watch. ARGV: that, as a text; a random version, for the case that the text is another one; a marker, or nothing.
-- Without a marker the one that is kept stays. Returns '' where none is, or the server is full: then nothing was noted.
-- A Redis that is full, or takes no writes, notes nothing: that is no outage of Redis.
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
