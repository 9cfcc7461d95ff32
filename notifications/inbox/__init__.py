"""What web code calls: write notifications, mark them as read, ask how many are unread.

Rows are written in the caller's transaction, and the unread number changes when that commits. Nothing here raises
because Redis is down: what Redis missed is reconciled later, and numbers are counted from the rows meanwhile. All
functions raise ValueError for what cannot be a user's key, and database errors.
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
