"""The queryset of notifications: whatever it inserts, updates or deletes, unread numbers stay right."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self, TypeVar

from django.apps import apps as django_apps
from django.db import NotSupportedError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Count, Exists, F, Func, Lookup, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from django.db.models.sql.compiler import SQLCompiler

from weir.notifications import changes, django_private
from weir.notifications.user_keys import UserKey
from weir.postgres import statements
from weir.postgres.transactions import CurrentTransactionId

COUNTED = frozenset({"user", "user_id", "read_at"})  # the fields that decide whose unread number includes the row

CHUNK = 10_000  # rows that are changed together: this limits the memory that Django and PostgreSQL need

Row = TypeVar("Row", bound=Model)  # Notification, which this module cannot import, because models.py imports this one
Result = TypeVar("Result")


class Locked(NamedTuple):
    """Rows that this transaction has locked, and how many of each user's rows have no `read_at`."""

    pks: "array[int]"  # 8 bytes for each of possibly millions of rows
    numbers: Counter[UserKey]


def is_computed(row: Model) -> bool:
    """Return whether only the database knows whose number includes the row, because a field holds an expression."""
    return any(django_private.is_expression(getattr(row, name)) for name in ("user_id", "read_at"))


class _Covers(Func):
    """Whether a read mark covers a row."""

    function = "weir_notifications_covers"
    output_field = BooleanField()


def _covering_marks() -> QuerySet[Any]:
    """Return the read marks that cover a row of the outer query."""
    marks: QuerySet[Any] = django_apps.get_model("weir_notifications", "ReadMark").objects.all()
    parts = F("up_to"), F("marked_by"), F("snapshot"), OuterRef("id"), OuterRef("changed_xid")
    return marks.filter(_Covers(*parts), pk=OuterRef("user_id"))


class _OneOf(Lookup):
    """`x = ANY (array)`: one parameter for any number of values. A million parameters would take seconds to parse."""

    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[str | int, ...]]:
        of, parameters = self.process_lhs(compiler, connection)
        return f"{of} = ANY (%s::bigint[])", (*parameters, self.rhs)


def _one_of(pks: Iterable[int]) -> _OneOf:
    return _OneOf(F("pk"), statements.bigints(pks))


class NotificationQuerySet(QuerySet[Row]):
    """Locks rows, counts unread ones before and after a change, and records the difference for the commit."""

    def unread(self) -> Self:
        """Return the rows that are not read yet."""
        return self.filter(~Exists(_covering_marks()), read_at__isnull=True)

    def with_covered_at(self) -> Self:
        """Give each row `covered_at`: if a read mark covers the row, the time of the mark; otherwise None."""
        return self.annotate(covered_at=Subquery(_covering_marks().values("marked_at")))

    def bulk_create(self, objs: Iterable[Row], *args: Any, **kwargs: Any) -> list[Row]:
        """Insert, and count the rows. Raises NotSupportedError if PostgreSQL would not say which rows it inserted."""
        if len(args) > 1 or kwargs.get("ignore_conflicts") or kwargs.get("update_conflicts"):
            raise NotSupportedError(
                "Notifications cannot be counted with ignore_conflicts or update_conflicts: insert without them, "
                "or use weir.notifications.inbox.notify_many."
            )
        using = django_private.database_of_writes(self)
        with transaction.atomic(using=using):
            rows: list[Any] = list(objs)
            for row in rows:
                row.changed_at, row.changed_xid = Now(), CurrentTransactionId()  # a copied row has the original's
                row.digest_id = None
            created = super().bulk_create(rows, *args, **kwargs)
            changes.record(self._unread_of(created), using=using)
        return created

    def update(self, **values: Any) -> int:
        """Update, and count the change if `user_id` or `read_at` is among the values. `bulk_update` calls this, too."""
        if not COUNTED & values.keys():
            return super().update(**values)
        no_digest = {"digest_due_at": None, "digest_id": None}  # who changes it has seen it
        values = {"changed_at": Now(), "changed_xid": CurrentTransactionId()} | no_digest | values
        by_row = django_private.is_by_row(self, values.values())
        if "read_at" not in values:  # a row that a read mark of the old owner covers is read for the new owner, too
            values["read_at"] = Coalesce(F("read_at"), Subquery(_covering_marks().values("marked_at")))
        return sum(self._counted(lambda rows: QuerySet.update(rows, **values), by_row=by_row))

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete, and count the changes."""
        deleted = Counter[str]()
        for _, by_table in self._counted(QuerySet.delete, by_row=django_private.is_by_row(self)):
            deleted.update(by_table)
        return deleted.total(), dict(deleted)

    # Templates must not call these methods, and Notification.objects.delete() must not exist.
    bulk_create.alters_data = update.alters_data = delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def lock(self) -> Locked:
        """Lock the rows, in the order of their ids, and return their ids and each user's rows without `read_at`."""
        rows = self._all().filter(pk__in=self.order_by().values("pk")).select_for_update().order_by("pk")
        pks, numbers = array("q"), Counter[UserKey]()
        for pk, user_id, read_at in django_private.streamed(rows.values_list("pk", "user_id", "read_at")):
            pks.append(pk)
            numbers[user_id] += read_at is None
        return Locked(pks, numbers)

    def numbers(self) -> Counter[UserKey]:
        """Return how many rows of each user have no `read_at`; rows that a read mark covers are counted, too."""
        counts = self.filter(read_at__isnull=True).order_by().values_list("user_id").annotate(Count("pk"))
        return Counter(dict(counts))

    def _unread_of(self, created: list[Any]) -> Counter[UserKey]:
        unread = Counter(row.user_id for row in created if row.read_at is None and not is_computed(row))
        if computed := [row.pk for row in created if is_computed(row)]:
            unread.update(self._all().filter(_one_of(computed)).numbers())
        return unread

    def _all(self) -> Self:
        return type(self)(self.model, using=django_private.database_of_writes(self))

    def _counted(self, change: Callable[[Self], Result], *, by_row: bool) -> list[Result]:
        """Lock the rows, apply the change only to these rows, and record by how much the numbers change.

        Many rows are changed in chunks, in one transaction. If changing some rows could affect the change of others
        (not `by_row`), all are changed together.
        """
        if django_private.is_sliced(self):
            return [change(self)]  # Django raises its own error
        using = django_private.database_of_writes(self)
        with transaction.atomic(using=using):
            locked = self.lock()
            size = CHUNK if by_row else max(1, len(locked.pks))
            results, difference = [], Counter[UserKey]()
            for start in range(0, len(locked.pks) or 1, size):
                these = _one_of(locked.pks[start : start + size])
                results.append(change(self.filter(these)))
                difference.update(self._all().filter(these).numbers())
            difference.subtract(locked.numbers)
            changes.record(difference, using=using)
        django_private.forget_loaded_rows(self)
        return results
