"""Retention: notifications that were read are kept for a time that the settings name; unread ones for ever."""

from django.conf import settings

from postgres import statements

BATCH = 1_000


def purge() -> int:
    """Delete notifications that were read longer ago than WEIR_NOTIFICATION_RETENTION; returns how many.

    No unread number changes, as only read ones go. In short batches that skip what others hold, until a batch is not
    full; may be killed anywhere.
    """
    deleted = 0
    while True:
        parameters = {"older_than": settings.WEIR_NOTIFICATION_RETENTION, "batch": BATCH}
        batch: int = statements.run("notifications", "purge", parameters)[0].deleted
        deleted += batch
        if batch < BATCH:
            return deleted
