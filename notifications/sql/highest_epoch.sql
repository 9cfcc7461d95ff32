-- The highest epoch whose deltas are in the stored numbers; 0 before the first.
SELECT coalesce(max(epoch), 0) AS epoch FROM notifications_flushedepoch
