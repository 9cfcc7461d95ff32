-- Return the highest epoch that was flushed or is refused; 0 if there is none.
SELECT coalesce(max(epoch), 0) AS epoch FROM weir_notifications_flushedepoch
