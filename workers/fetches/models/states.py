"""States of fetches, and the filters by them."""

from typing import Self, TypeVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

RowT = TypeVar("RowT", bound=models.Model)


class FetchState(models.TextChoices):
    """Where a fetch is. `done`, `failed` and `cancelled` are final."""

    QUEUED = "queued"  # waits for dispatch
    RESERVED = "reserved"  # has a slot; a message with its id is on its way to a fetcher
    RUNNING = "running"  # a fetcher has claimed it
    DONE = "done"  # an answer is stored, with any status below 500 that is not a refusal
    FAILED = "failed"  # `error` says why
    CANCELLED = "cancelled"


FINAL = (FetchState.DONE, FetchState.FAILED, FetchState.CANCELLED)
HELD = (FetchState.RESERVED, FetchState.RUNNING)
ACTIVE = (FetchState.QUEUED, *HELD)
# What users asked for: no robots.txt, and no access token, for which Weir itself asks.
ASKED_FOR = Q(is_robots=False, token_client="")


class ByState(models.QuerySet[RowT]):
    """Filters fetches by state."""

    def due(self) -> Self:
        """Return the fetches that dispatch may take now."""
        return self.filter(state=FetchState.QUEUED, not_before__lte=Now())

    def unfinished(self) -> Self:
        """Return the fetches that have not ended."""
        return self.filter(state__in=ACTIVE)

    def failed(self) -> Self:
        """Return the fetches that `retry_failed` may queue again."""
        return self.filter(state=FetchState.FAILED)

    def asked_for(self) -> Self:
        """Return the fetches that users asked for."""
        return self.filter(ASKED_FOR)
