"""The queryset that keeps the unread numbers right, whatever is done through it."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self, TypeVar

from django.db import NotSupportedError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Count, F, Lookup, Model, QuerySet
from django.db.models.functions import Now
from django.db.models.sql.compiler import SQLCompiler

from notifications import changes, django_private
from postgres import statements

COUNTED = frozenset({"user_id", "read_at"})  # the fields that decide in whose number a row is

Row = TypeVar("Row", bound=Model)  # Notification, which this module cannot import: its module imports this one
Result = TypeVar("Result")


class Locked(NamedTuple):
    """Rows that this transaction has locked, and how many of them are unread, by user."""

    pks: list[int]
    numbers: Counter[int]


def is_computed(row: Model) -> bool:
    """Tell whether only the database knows in whose number the row is, because a field holds an expression."""
    return any(django_private.is_expression(getattr(row, name)) for name in COUNTED)


class _OneOf(Lookup):
    """`x = ANY (array)`: one parameter, however many there are. A list of a million would be parsed for seconds."""

    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[str | int, ...]]:
        of, parameters = self.process_lhs(compiler, connection)
        return f"{of} = ANY (%s::bigint[])", (*parameters, self.rhs)


def _one_of(pks: list[int]) -> _OneOf:
    return _OneOf(F("pk"), statements.bigints(pks))


class NotificationQuerySet(QuerySet[Row]):
    """Counts what it changes when the transaction commits: what the rows are, against what they were, under lock."""

    def unread(self) -> Self:
        """Return the rows that are not read yet."""
        return self.filter(read_at__isnull=True)

    def bulk_create(self, objs: Iterable[Row], *args: Any, **kwargs: Any) -> list[Row]:
        """Insert and count. Raises NotSupportedError where PostgreSQL would not say which rows it inserted."""
        if len(args) > 1 or kwargs.get("ignore_conflicts") or kwargs.get("update_conflicts"):
            raise NotSupportedError(
                "Notifications cannot be counted with ignore_conflicts or update_conflicts: insert without them, "
                "or use notifications.inbox.notify_many."
            )
        using = django_private.database_of_writes(self)
        with transaction.atomic(using=using):
            rows: list[Any] = list(objs)
            for row in rows:
                row.changed_at = Now()  # a copied row must not keep the time of the original
            created = super().bulk_create(rows, *args, **kwargs)
            changes.record(self._unread_of(created), using=using)
        return created

    def update(self, **values: Any) -> int:
        """Update, and count if `user_id` or `read_at` is among the values. `bulk_update` calls this, too."""
        if not COUNTED & values.keys():
            return super().update(**values)
        values.setdefault("changed_at", Now())
        return self._counted(lambda rows: QuerySet.update(rows, **values))

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete and count."""
        return self._counted(QuerySet.delete)

    # So that no template calls them, and Notification.objects.delete() does not exist.
    bulk_create.alters_data = update.alters_data = delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def lock(self) -> Locked:
        """Lock the rows, in the order of their ids, and return what they are."""
        rows = self._all().filter(pk__in=self.order_by().values("pk")).select_for_update().order_by("pk")
        pks, numbers = [], Counter[int]()
        for pk, user_id, read_at in rows.values_list("pk", "user_id", "read_at"):
            pks.append(pk)
            numbers[user_id] += read_at is None
        return Locked(pks, numbers)

    def numbers(self) -> Counter[int]:
        """Return how many of the rows are unread, by user."""
        counts = self.unread().order_by().values_list("user_id").annotate(Count("pk"))
        return Counter(dict(counts))

    def _unread_of(self, created: list[Any]) -> Counter[int]:
        unread = Counter(row.user_id for row in created if row.read_at is None and not is_computed(row))
        if computed := [row.pk for row in created if is_computed(row)]:
            unread.update(self._all().filter(_one_of(computed)).numbers())
        return unread

    def _all(self) -> Self:
        return type(self)(self.model, using=django_private.database_of_writes(self))

    def _counted(self, change: Callable[[Self], Result]) -> Result:
        """Lock the rows, do the change to these alone, and record how the numbers differ."""
        if django_private.is_sliced(self):
            return change(self)  # Django refuses it, in its own words
        using = django_private.database_of_writes(self)
        with transaction.atomic(using=using):
            locked = self.lock()
            these = _one_of(locked.pks)
            result = change(self.filter(these))
            difference = self._all().filter(these).numbers()
            difference.subtract(locked.numbers)
            changes.record(difference, using=using)
        django_private.forget_loaded_rows(self)
        return result
