"""Claims: several workers share out rows among themselves with `SELECT ... FOR UPDATE SKIP LOCKED`.

Both functions take any queryset of any model, and no worker waits for another:

- `claim` is for work whose effect is outside the database, such as an e-mail. It marks rows as taken, and commits the
  marks before the work begins; no lock is held during the work.
- `each_locked` is for work whose effect is in the same database. The transaction of the work also holds the row's lock.

    mine = claim(Parcel.objects.filter(state="ready").order_by("id"), limit=50, state="taken", taken_by=me)
    each_locked(Invoice.objects.filter(closed_at=None, due_at__lt=Now()), close)
"""

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


def claim(queryset: QuerySet[Row], limit: int, **marks: Any) -> list[Row]:
    """Take rows that no other worker takes: up to `limit` rows, in the queryset's order, and mark them.

    1. Lock the first rows of the queryset that are not locked. PostgreSQL checks rows again that were changed since the
       statement began, and leaves out those that no longer match.
    2. Write the marks (as `QuerySet.update` takes them) into all locked rows, and commit.

    However many workers call this function at the same time, no row is handed to two of them, provided that the
    queryset does not include marked rows. A worker that is killed holds its rows forever, so a mark should have an end
    (see `weir.workers.mail.sending.leases`).

    Returns the rows; the marks are committed, and marks that are plain values, not expressions, are set on the returned
    objects. Related rows that the queryset also selects are not locked. Raises RuntimeError inside a transaction, which
    could roll the claim back after the work was done. Raises ValueError without marks, and for a limit below 1.
    """
    if not marks:
        raise ValueError("A claim needs marks that take the rows out of the queryset, such as state='taken'.")
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    locked = _locked(queryset)
    with transaction.atomic(using=locked.db, durable=True):
        rows = list(locked[:limit])
        if rows:
            # The queryset itself may be ordered and joined, so a plain one updates the rows.
            everything = queryset.model._base_manager.using(locked.db)  # noqa: SLF001  documented, in spite of its name
            everything.filter(pk__in=[row.pk for row in rows]).update(**marks)
    for row in rows:
        for name, value in marks.items():
            if not hasattr(value, "resolve_expression"):
                setattr(row, name, value)
    return rows


def each_locked(queryset: QuerySet[Row], work: Callable[[Row], object], limit: int | None = None) -> int:
    """Call `work` with each row of the queryset, locked; with the first `limit` rows, each in its own transaction.

    Double-checked locking:

    1. Find the rows, without a lock.
    2. Lock each row in turn, and check it again. Skip a row that is gone, no longer matches, or is locked.
    3. Call `work`. Its writes commit, and the lock ends with the same transaction.

    However many workers call this function at the same time, the work for each row is done once, provided that the work
    takes the row out of the queryset. Returns for how many rows `work` was called. An error in `work` rolls back this
    row's transaction, and is raised; the work for earlier rows stays. Raises RuntimeError inside a transaction, which
    would keep every lock until its end.
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
