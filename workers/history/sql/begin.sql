-- Create the watermark, if there is none: the history begins with the current minute.
INSERT INTO weir_history_watermark (id, rolled_until, epoch)
SELECT 1, date_trunc('minute', clock_timestamp(), 'UTC'), coalesce((SELECT max(epoch) FROM weir_notifications_flushedepoch), 0)
WHERE NOT EXISTS (SELECT FROM weir_history_watermark)
ON CONFLICT (id) DO NOTHING
