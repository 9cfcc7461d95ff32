"""The queryset that keeps the unread numbers right, whatever is done through it."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from django.db import NotSupportedError, transaction
from django.db.models import Count, QuerySet
from django.db.models.expressions import BaseExpression, Combinable
from django.db.models.functions import Now

from notifications import changes

if TYPE_CHECKING:
    from notifications.models import Notification

    NotificationRows = QuerySet[Notification]
else:
    NotificationRows = QuerySet

COUNTED = frozenset({"user_id", "read_at"})  # the fields that decide in whose number a row is
BATCH = 10_000  # rows: their ids stand in the text of a statement

Result = TypeVar("Result")


class Locked(NamedTuple):
    """Rows that this transaction has locked, and how many of them are unread, by user."""

    pks: list[int]
    numbers: Counter[int]


def is_computed(row: "Notification") -> bool:
    """Tell whether only the database knows in whose number the row is, because an expression says so."""
    return any(isinstance(getattr(row, name), BaseExpression | Combinable) for name in COUNTED)


class NotificationQuerySet(NotificationRows):
    """What it changes is counted when the transaction commits: what the rows are against what they were, under lock."""

    def unread(self) -> Self:
        """Return those that are not read yet."""
        return self.filter(read_at__isnull=True)

    def bulk_create(self, objs: Iterable["Notification"], *args: Any, **kwargs: Any) -> list["Notification"]:
        """Insert and count. Raises NotSupportedError where PostgreSQL would not say which rows it inserted."""
        if len(args) > 1 or kwargs.get("ignore_conflicts") or kwargs.get("update_conflicts"):
            raise NotSupportedError(
                "Notifications cannot be counted with ignore_conflicts or update_conflicts: insert without them, "
                "or use notifications.inbox.notify_many."
            )
        with transaction.atomic(using=self._written):
            for row in (objs := list(objs)):
                row.changed_at = Now()  # not that of the row it may be a copy of
            created = super().bulk_create(objs, *args, **kwargs)
            changes.record(self._unread_of(created), using=self._written)
        return created

    def update(self, **values: Any) -> int:
        """Update, and count if `user_id` or `read_at` is among the values. `bulk_update` comes this way, too."""
        if not COUNTED & values.keys():
            return super().update(**values)
        values.setdefault("changed_at", Now())
        return sum(self._counted(lambda rows: NotificationRows.update(rows, **values)))

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete and count."""
        by_model: Counter[str] = Counter()
        for _, deleted in self._counted(NotificationRows.delete):
            by_model.update(deleted)
        return by_model.total(), dict(by_model)

    # So that no template calls them, and Notification.objects.delete() does not exist.
    bulk_create.alters_data = update.alters_data = delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def lock(self) -> Locked:
        """Lock the rows, in the order of their ids, and return what they are."""
        rows = self._all.filter(pk__in=self.order_by().values("pk")).select_for_update().order_by("pk")
        pks, numbers = [], Counter[int]()
        for pk, user_id, read_at in rows.values_list("pk", "user_id", "read_at"):
            pks.append(pk)
            numbers[user_id] += read_at is None
        return Locked(pks, numbers)

    def numbers(self) -> Counter[int]:
        """Return how many of the rows are unread, by user."""
        counts = self.unread().order_by().values_list("user_id").annotate(Count("pk"))
        return Counter(dict(counts))

    def _unread_of(self, created: list["Notification"]) -> Counter[int]:
        unread = Counter(row.user_id for row in created if row.read_at is None and not is_computed(row))
        computed = [row.pk for row in created if is_computed(row)]
        for start in range(0, len(computed), BATCH):
            unread.update(self._all.filter(pk__in=computed[start : start + BATCH]).numbers())
        return unread

    @property
    def _all(self) -> "NotificationQuerySet":
        return self.model.objects.using(self._written)

    @property
    def _written(self) -> str:
        self._for_write = True
        return self.db

    def _counted(self, change: Callable[[Self], Result]) -> list[Result]:
        """Lock the rows, do the change to these alone, batch by batch, and record how the numbers differ."""
        if self.query.is_sliced:
            return [change(self)]  # Django refuses it, in its own words
        with transaction.atomic(using=self._written):
            locked = self.lock()
            difference = Counter[int]()
            results = []
            for start in range(0, len(locked.pks) or 1, BATCH):  # once at least, for Django to refuse what is wrong
                pks = locked.pks[start : start + BATCH]
                results.append(change(self.filter(pk__in=pks)))
                difference.update(self._all.filter(pk__in=pks).numbers())
            difference.subtract(locked.numbers)
            changes.record(difference, using=self._written)
        self._result_cache = None
        return results
