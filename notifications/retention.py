"""Retention: read notifications are kept for a time that the settings name; unread ones for ever."""

from django.conf import settings

from postgres import batches

BATCH = 1_000


def purge() -> int:
    """Delete notifications that were read longer ago than WEIR_NOTIFICATION_RETENTION; returns how many.

    No unread number changes, as only read rows are deleted. Batches are short, and skip rows that others hold locked.
    The process may be killed anywhere.
    """
    parameters = {"older_than": settings.WEIR_NOTIFICATION_RETENTION}
    return batches.delete("notifications", "retention/purge", parameters, batch=BATCH)
