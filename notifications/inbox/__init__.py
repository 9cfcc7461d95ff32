"""What web code calls to write notifications, mark them as read, and ask how many are unread.

Rows are written in the caller's transaction, and the unread number changes when the transaction commits. No function
raises an error because Redis is down: deltas that Redis missed are reconciled later, and until then numbers are counted
from the rows. All functions raise ValueError for a value that cannot be a user's key, and database errors.
"""

from weir.notifications.inbox.reading import page, unread_by_kind, unread_count, unread_counts
from weir.notifications.inbox.writing import mark_all_read, mark_read, mark_unread, notify, notify_many

__all__ = [
    "mark_all_read",
    "mark_read",
    "mark_unread",
    "notify",
    "notify_many",
    "page",
    "unread_by_kind",
    "unread_count",
    "unread_counts",
]
