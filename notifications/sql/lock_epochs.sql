-- Wait for those who are applying an epoch, and have others wait until this transaction ends; readers do not.
LOCK TABLE notifications_flushedepoch IN SHARE ROW EXCLUSIVE MODE
