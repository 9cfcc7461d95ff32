-- Return how many deltas of the open and the sealed epoch wait for a flush. KEYS: open, deltas.
return redis.call('ZCARD', KEYS[1]) + redis.call('ZCARD', KEYS[2])
