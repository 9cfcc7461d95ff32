-- The highest epoch that was flushed or is refused; 0 before the first.
SELECT coalesce(max(epoch), 0) AS epoch FROM weir_notifications_flushedepoch
