"""The names of Weir's Celery tasks, each written once.

The `tasks.py` of each package defines its tasks by these names; the schedule, the routes and all senders use them. So
the lower modules of a package can send a message to a task that is defined above them, without importing it.
"""

DISPATCH = "fetches.dispatch"
FETCH_BATCH = "fetches.fetch_batch"
SWEEP = "fetches.sweep"
PURGE_FETCHES = "fetches.purge"
PUBLISH_POSTPONED = "throttled.publish_postponed"
FLUSH_UNREAD = "unread.flush"
RECONCILE_UNREAD = "unread.reconcile"
SETTLE_UNREAD = "unread.settle"
PURGE_NOTIFICATIONS = "unread.purge"
EXPIRE_NOTIFICATIONS = "unread.expire"
SEND_EMAILS = "mail.send_emails"
PURGE_EMAILS = "mail.purge"
ROLL_UP = "history.rollup"
PURGE_AUDIT = "audit.purge"
PURGE_API = "api.purge"
HEARTBEAT = "workers.heartbeat"

# Those that beat sends: each run does all that is due.
TICKS = frozenset(
    {
        DISPATCH,
        SWEEP,
        PURGE_FETCHES,
        PUBLISH_POSTPONED,
        FLUSH_UNREAD,
        RECONCILE_UNREAD,
        SETTLE_UNREAD,
        PURGE_NOTIFICATIONS,
        EXPIRE_NOTIFICATIONS,
        SEND_EMAILS,
        PURGE_EMAILS,
        ROLL_UP,
        PURGE_AUDIT,
        PURGE_API,
    }
)
OF_WEIR = TICKS | {FETCH_BATCH, HEARTBEAT}
