-- Record the epoch before `epoch` as flushed, although it was not, so that it and all earlier epochs are refused.
INSERT INTO weir_notifications_flushedepoch (epoch, users, flushed_at)
SELECT %(epoch)s::bigint - 1, 0, clock_timestamp()
WHERE NOT EXISTS (SELECT FROM weir_notifications_flushedepoch WHERE epoch >= %(epoch)s::bigint - 1)
ON CONFLICT (epoch) DO NOTHING
RETURNING epoch
