"""The names of Weir's Celery tasks, each written once.

The `tasks.py` of each package defines its tasks with these names. The schedule, the routes and all senders use the same
names. So a lower module of a package can send a message to a task that a higher module defines, without importing it.
"""

from typing import Any, Final

LONGEST: Final = 200  # characters of the name of a user's task that a row names

DISPATCH = "weir.fetches.dispatch"
FETCH_BATCH = "weir.fetches.fetch_batch"
SWEEP = "weir.fetches.sweep"
PURGE_FETCHES = "weir.fetches.purge"
PURGE_BODIES = "weir.fetches.purge_bodies"
PURGE_SLOTS = "weir.ratelimit.purge"
PUBLISH_POSTPONED = "weir.throttled.publish_postponed"
KEEP_WATCH = "weir.watches.keep_watch"
DELIVER_WEBHOOKS = "weir.webhooks.deliver"
FLUSH_UNREAD = "weir.unread.flush"
RECONCILE_UNREAD = "weir.unread.reconcile"
SETTLE_UNREAD = "weir.unread.settle"
PURGE_NOTIFICATIONS = "weir.unread.purge"
EXPIRE_NOTIFICATIONS = "weir.unread.expire"
GATHER_DIGESTS = "weir.digests.gather"
SEND_EMAILS = "weir.mail.send_emails"
PURGE_EMAILS = "weir.mail.purge"
PERFORM_EFFECTS = "weir.effects.perform"
PURGE_EFFECTS = "weir.effects.purge"
ROLL_UP = "weir.history.rollup"
PURGE_AUDIT = "weir.audit.purge"
KEEP_EVENTS = "weir.events.keep"
PURGE_API = "weir.api.purge"
TELL_OPERATORS = "weir.overview.tell_operators"
HEARTBEAT = "weir.heartbeat"

# The tasks that beat sends, except the heartbeat. Each run does all that is due.
TICKS = frozenset(
    {
        DISPATCH,
        SWEEP,
        PURGE_FETCHES,
        PURGE_BODIES,
        PURGE_SLOTS,
        PUBLISH_POSTPONED,
        KEEP_WATCH,
        DELIVER_WEBHOOKS,
        FLUSH_UNREAD,
        RECONCILE_UNREAD,
        SETTLE_UNREAD,
        PURGE_NOTIFICATIONS,
        EXPIRE_NOTIFICATIONS,
        GATHER_DIGESTS,
        SEND_EMAILS,
        PURGE_EMAILS,
        PERFORM_EFFECTS,
        PURGE_EFFECTS,
        ROLL_UP,
        PURGE_AUDIT,
        KEEP_EVENTS,
        PURGE_API,
        TELL_OPERATORS,
    }
)
OF_WEIR = TICKS | {FETCH_BATCH, HEARTBEAT}

# Options of Weir's tasks, which a project's settings do not change. No code reads a result, and stored results would
# fill the result backend. No message needs a second delivery: each run does all that is due, and the next tick or the
# sweep makes up for a lost message.
OPTIONS: Final[dict[str, Any]] = {
    "ignore_result": True,
    "store_errors_even_if_ignored": False,
    "track_started": False,
    "acks_late": False,
    "serializer": "json",
}
