-- Record, for users who were deleted since the last run, which transactions may have written rows for them: all with a
-- lower id than this statement's transaction, because this statement sees that the deletion has committed. (The highest
-- id of a snapshot would be wrong, because it is the id of the last transaction that has ended.) After pg_restore into
-- another cluster, ids from the old cluster mean nothing, and are replaced.
UPDATE weir_notifications_forgottenuser SET until_xid = pg_current_xact_id()
WHERE until_xid IS NULL OR until_xid >= pg_snapshot_xmax(pg_current_snapshot())
