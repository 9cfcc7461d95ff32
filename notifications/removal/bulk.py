"""Deletes many notifications that somebody names: a page of ids at a time, each in a transaction, counted as it goes.

Pages follow the primary key, so that each row is looked at once however few are meant, and end at the highest id that
there was at the beginning. A kill costs what is left: all that was deleted is counted.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet
from django.db.models.functions import Now

from notifications.models import Notification
from notifications.user_keys import UserKey

PAGE = 5_000  # rows that are looked at together, and deleted in a transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class Meant:
    """Which notifications are meant: those that meet all that is given."""

    kinds: Collection[str] = ()
    users: Collection[UserKey] = ()
    older_than: timedelta | None = None

    def rows(self) -> QuerySet[Notification]:
        """Return them."""
        rows = Notification.objects.using(DEFAULT_DB_ALIAS)
        rows = rows.filter(kind__in=self.kinds) if self.kinds else rows
        return rows if self.older_than is None else rows.filter(created_at__lt=Now() - self.older_than)

    def newest(self, most: int) -> QuerySet[Notification]:
        """Return those among the newest `most` rows, or among all of the users; the newest first."""
        if self.users:
            return self.rows().filter(user_id__in=self.users).order_by("-pk")
        newest = Notification.objects.using(DEFAULT_DB_ALIAS).order_by("-pk").values("pk")[:most]
        return self.rows().filter(pk__in=newest).order_by("-pk")

    def pages(self) -> Iterator[QuerySet[Notification]]:
        """Yield them, in the order of their ids."""
        looked_at = Notification.objects.using(DEFAULT_DB_ALIAS)
        looked_at = looked_at.filter(user_id__in=self.users) if self.users else looked_at
        ids = looked_at.values_list("pk", flat=True)
        last = ids.order_by("-pk").first()
        after = None
        while last is not None and (after is None or after < last):
            further = ids.filter(pk__lte=last) if after is None else ids.filter(pk__gt=after, pk__lte=last)
            page = list(further.order_by("pk")[:PAGE])
            if not page:
                return
            after = page[-1]
            yield self.rows().filter(pk__in=page) if self.users else self.rows().filter(pk__range=(page[0], after))


def count(meant: Meant) -> int:
    """Return how many are meant."""
    return sum(page.count() for page in meant.pages())


def delete(meant: Meant, *, on_progress: Callable[[int], None] = lambda _deleted: None) -> None:
    """Delete them; `on_progress` is called with the number of each page. Raises database errors; what went stays so."""
    for page in meant.pages():
        _, by_table = page.delete()
        on_progress(by_table.get(Notification._meta.label, 0))  # noqa: SLF001  documented
