-- Return how many deltas wait for the next flush, in the open and the sealed epoch. KEYS: open, deltas.
return redis.call('ZCARD', KEYS[1]) + redis.call('ZCARD', KEYS[2])
