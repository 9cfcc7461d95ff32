-- Wait for flushers that are applying an epoch, and keep other flushers from beginning until this transaction ends.
-- Readers are not blocked.
LOCK TABLE weir_notifications_flushedepoch IN SHARE ROW EXCLUSIVE MODE
