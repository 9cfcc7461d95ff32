"""Retention: results and past slots are kept for a time that the settings name."""

from datetime import timedelta

from django.conf import settings

from postgres import statements
from ratelimit import slots

BATCH = 1_000


def purge() -> int:
    """Delete fetches that ended, and slots that passed, longer ago than their retention; returns the fetches.

    In short batches that skip what others hold, until a batch is not full; may be killed anywhere.
    """
    slots.purge(timedelta(seconds=settings.WEIR_SLOT_RETENTION))
    deleted = 0
    while True:
        batch: int = statements.run(
            "workers.fetches", "purge", {"older_than": settings.WEIR_FETCH_RETENTION, "batch": BATCH}
        )[0].deleted
        deleted += batch
        if batch < BATCH:
            return deleted
