"""Deletes many notifications that an operator describes, in pages of ids. Each page is a transaction.

Pages follow the primary key, so that each row is looked at only once, however few rows are meant. The last page ends at
the highest id that existed at the beginning. If the process is killed, the other pages are not deleted. Unread numbers
include all deletions that were committed.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now

from weir.notifications.models import Notification
from weir.notifications.user_keys import UserKey

PAGE = 5_000  # rows that are looked at together, and deleted in a transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class Meant:
    """Which notifications an operator means: those that meet all conditions that are given."""

    kinds: Collection[str] = ()
    users: Collection[UserKey] = ()
    older_than: timedelta | None = None

    def newest(self, most: int) -> QuerySet[Notification]:
        """Return these notifications, the newest first. Without users, only the newest `most` rows are searched."""
        looked_at = self._looked_at().order_by("-pk")
        if not self.users:
            looked_at = Notification.objects.filter(pk__in=looked_at.values("pk")[:most]).order_by("-pk")
        return self._among(looked_at)

    def pages(self) -> Iterator[QuerySet[Notification]]:
        """Yield these notifications in pages, in the order of their ids."""
        ids = self._looked_at().order_by("pk").values_list("pk", flat=True)
        after, last = 0, ids.last() or 0
        while page := list(ids.filter(pk__gt=after, pk__lte=last)[:PAGE]):
            first, after = page[0], page[-1]
            # A range is a shorter condition, but between two ids of a user's rows lie the ids of all other users' rows.
            looked_at = {"pk__in": page} if self.users else {"pk__range": (first, after)}
            yield self._among(Notification.objects.filter(**looked_at))

    def _looked_at(self) -> QuerySet[Notification]:
        """Return the rows to search, which an index finds: the rows of the given users, or all."""
        return Notification.objects.filter(user_id__in=self.users) if self.users else Notification.objects.all()

    def _among(self, rows: QuerySet[Notification]) -> QuerySet[Notification]:
        rows = rows.filter(kind__in=self.kinds) if self.kinds else rows
        return rows if self.older_than is None else rows.filter(created_at__lt=Now() - self.older_than)


def count(meant: Meant) -> int:
    """Return how many notifications are meant."""
    return sum(page.count() for page in meant.pages())


def delete(meant: Meant) -> Iterator[int]:
    """Delete these notifications page by page; yields how many each page had. Raises database errors.

    After an error, pages that were deleted before stay deleted.
    """
    for page in meant.pages():
        _, by_table = page.delete()
        yield by_table.get(Notification._meta.label, 0)  # noqa: SLF001  documented
