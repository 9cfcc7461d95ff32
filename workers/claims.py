"""Claims: rows that several workers share out among themselves by `SELECT ... FOR UPDATE SKIP LOCKED`.

Both functions take any queryset of any model, and no worker waits for another:

- `claim` is for work whose effect is outside the database, such as an e-mail: rows are marked as taken and committed
  before anything is done with them, and no lock is held meanwhile.
- `each_locked` is for work whose effect is in the same database: it commits together with the row's lock.

    mine = claim(Parcel.objects.filter(state="ready").order_by("id"), limit=50, state="taken", taken_by=me)
    each_locked(Invoice.objects.filter(closed_at=None, due_at__lt=Now()), close)
"""

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


def claim(queryset: QuerySet[Row], limit: int, **marks: Any) -> list[Row]:
    """Take rows that no other worker takes: up to `limit`, in the queryset's order, and mark them.

    1. Lock the first rows of the queryset that are not locked. PostgreSQL checks those again that were changed since
       the statement began: rows that no longer match are left out.
    2. Write the marks (as `QuerySet.update` takes them) into all of them, and commit.

    However many workers call it at the same time, no row is handed to two of them, provided that a marked row is
    outside the queryset. A worker that is killed holds its rows forever, so a mark should have an end (see
    `weir.workers.mail.sending.leases`).

    Returns the rows, with those marks that are plain values; the marks are committed. Related rows that the queryset
    also selects are not locked. Raises RuntimeError inside a transaction, which could roll the claim back after the
    work was done; ValueError without marks, and for a limit below 1.
    """
    if not marks:
        raise ValueError("A claim needs marks that take the rows out of the queryset, such as state='taken'.")
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    locked = _locked(queryset)
    with transaction.atomic(using=locked.db, durable=True):
        rows = list(locked[:limit])
        if rows:
            # Not through the queryset, which may be ordered and joined.
            everything = queryset.model._base_manager.using(locked.db)  # noqa: SLF001  documented, in spite of its name
            everything.filter(pk__in=[row.pk for row in rows]).update(**marks)
    for row in rows:
        for name, value in marks.items():
            if not hasattr(value, "resolve_expression"):
                setattr(row, name, value)
    return rows


def each_locked(queryset: QuerySet[Row], work: Callable[[Row], object], limit: int | None = None) -> int:
    """Call `work` with each row of the queryset, locked; the first `limit`, each in a transaction of its own.

    Double-checked locking:

    1. Find the rows, without a lock.
    2. Lock each of them in turn and check it again. A row that is gone, no longer matches, or is locked, is left alone.
    3. Work. What `work` writes commits with the row.

    However many workers call it at the same time, each row's work is done once, provided that it takes the row out of
    the queryset. Returns how many rows were worked on. An error in `work` rolls back its row, and is raised; rows
    before it are done. Raises RuntimeError inside a transaction, which would keep every lock to its end.
    """
    locked = _locked(queryset)
    done = 0
    for key in list(queryset.using(locked.db).values_list("pk", flat=True)[:limit]):
        with transaction.atomic(using=locked.db, durable=True):
            row = locked.filter(pk=key).first()
            if row is not None:
                work(row)
                done += 1
    return done


def _locked(queryset: QuerySet[Row]) -> QuerySet[Row]:
    return queryset.select_for_update(of=("self",), skip_locked=True)
