"""The names of Weir's Celery tasks, each written once.

The `tasks.py` of a room defines its tasks by these names; the schedule, the routes and every sender use them. So a
room's lower modules can send a message to a task that stands above them, and know nothing of it but its name.
"""

DISPATCH = "fetches.dispatch"
FETCH_BATCH = "fetches.fetch_batch"
SWEEP = "fetches.sweep"
PURGE_FETCHES = "fetches.purge"
PUBLISH_POSTPONED = "throttled.publish_postponed"
FLUSH_UNREAD = "unread.flush"
RECONCILE_UNREAD = "unread.reconcile"
PURGE_NOTIFICATIONS = "unread.purge"
SEND_EMAILS = "mail.send_emails"
HEARTBEAT = "workers.heartbeat"
