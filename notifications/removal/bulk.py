"""Deletes many notifications that an operator names: a page of ids at a time, each in a transaction, which counts it.

Pages follow the primary key, so that each row is looked at once, however few are meant, and end at the highest id that
existed at the beginning. After a kill the rest is left: all that was deleted is counted.
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
    """Which notifications are meant: those that meet all that is given."""

    kinds: Collection[str] = ()
    users: Collection[UserKey] = ()
    older_than: timedelta | None = None

    def newest(self, most: int) -> QuerySet[Notification]:
        """Return them, the newest first; if no users are given, only those among the newest `most` rows of all."""
        looked_at = self._looked_at().order_by("-pk")
        if not self.users:
            looked_at = Notification.objects.filter(pk__in=looked_at.values("pk")[:most]).order_by("-pk")
        return self._among(looked_at)

    def pages(self) -> Iterator[QuerySet[Notification]]:
        """Yield them in pages, in the order of their ids."""
        ids = self._looked_at().order_by("pk").values_list("pk", flat=True)
        after, last = 0, ids.last() or 0
        while page := list(ids.filter(pk__gt=after, pk__lte=last)[:PAGE]):
            first, after = page[0], page[-1]
            # A range is a short text, but between two ids of a user lie the ids of all other users.
            looked_at = {"pk__in": page} if self.users else {"pk__range": (first, after)}
            yield self._among(Notification.objects.filter(**looked_at))

    def _looked_at(self) -> QuerySet[Notification]:
        """Return the rows to search, which an index finds: those of the users, or all."""
        return Notification.objects.filter(user_id__in=self.users) if self.users else Notification.objects.all()

    def _among(self, rows: QuerySet[Notification]) -> QuerySet[Notification]:
        rows = rows.filter(kind__in=self.kinds) if self.kinds else rows
        return rows if self.older_than is None else rows.filter(created_at__lt=Now() - self.older_than)


def count(meant: Meant) -> int:
    """Return how many notifications are meant."""
    return sum(page.count() for page in meant.pages())


def delete(meant: Meant) -> Iterator[int]:
    """Delete them page by page; yields the number of each page. Raises database errors; deleted pages stay deleted."""
    for page in meant.pages():
        _, by_table = page.delete()
        yield by_table.get(Notification._meta.label, 0)  # noqa: SLF001  documented
