-- Add deltas to the open epoch, as ZINCRBY does for one. KEYS: open. ARGV: user, delta, user, delta, ...
for place = 1, #ARGV, 2 do
    redis.call('ZINCRBY', KEYS[1], ARGV[place + 1], ARGV[place])
end
