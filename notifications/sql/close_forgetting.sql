-- Record, for users who were deleted since the last run, which transactions may have written for them: all that have a
-- lower id than this statement's transaction, because it sees that the deletion has committed. (The highest id of a
-- snapshot would not do: it is that of the last transaction that has ended.) After pg_restore into another cluster, ids
-- from the old one mean nothing.
UPDATE weir_notifications_forgottenuser SET until_xid = pg_current_xact_id()
WHERE until_xid IS NULL OR until_xid >= pg_snapshot_xmax(pg_current_snapshot())
