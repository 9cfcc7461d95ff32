-- Have a watermark: the history begins with the minute that is not over yet. Writes nothing where there is one.
INSERT INTO history_watermark (id, rolled_until, epoch)
SELECT 1, date_trunc('minute', clock_timestamp(), 'UTC'), coalesce((SELECT max(epoch) FROM notifications_flushedepoch), 0)
WHERE NOT EXISTS (SELECT FROM history_watermark)
ON CONFLICT (id) DO NOTHING
