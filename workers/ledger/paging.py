"""Places in a list of effects that is ordered by a column and then by id, or by id alone, the newest first.

Where one index serves only a part of a list's filters, PostgreSQL looks at LOOKED_AT rows for a page, at most. Such a
page may be shorter than others, and says so; the next page begins where it ended.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Generic, NamedTuple

from django.db.models import Q, QuerySet

from weir.workers import cursors
from weir.workers.ledger.rows import Row

A_PAGE: Final = 100
LOOKED_AT: Final = 5_000  # rows for one page; each may have to be read from another place on a disk
LARGEST_ID: Final = 2**63 - 1
NEWEST_FIRST: Final = "-pk"  # in place of a column

Place = tuple[Any, ...]  # of a row in a list: its id, preceded by its value in the column, if there is one


class RowsPage(NamedTuple, Generic[Row]):
    """A page, and the cursor of the next page, which is "" after the last page."""

    rows: list[Row]
    next: str
    looked_at: int | None = None  # how many rows were looked at, if the page is short although the list goes on


def page(
    rows: QuerySet[Row], served: QuerySet[Row] | None, column: str, cursor: str, read: Callable[[str], object]
) -> RowsPage[Row]:
    """Return up to A_PAGE rows after the cursor. Reads only. Raises BadCursor.

    `rows` are those of the list in their order, `served` those that the index finds in that order, if it does not serve
    all filters. `read` returns the value of the column from its text in a cursor.
    """
    last = None
    if served is not None:
        places = _after(served, column, cursor, read).values_list(
            *(["pk"] if column == NEWEST_FIRST else [column, "pk"])
        )
        last = places[LOOKED_AT - 1 : LOOKED_AT].first()
    after = _after(rows, column, cursor, read)
    found = list((_until(after, column, last) if last else after)[: A_PAGE + 1])
    shown = found[:A_PAGE]
    if len(found) > A_PAGE:
        row = shown[-1]
        return RowsPage(shown, _cursor((row.pk,) if column == NEWEST_FIRST else (getattr(row, column), row.pk)))
    if last is None:
        return RowsPage(shown, "")
    return RowsPage(shown, _cursor(last), LOOKED_AT if len(shown) < A_PAGE else None)


def moment(text: str) -> datetime:
    """Return the moment of a cursor. Raises BadCursor."""
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError) as error:  # not all time zones have the first and the last day
        raise cursors.BadCursor from error
    raise cursors.BadCursor


def _cursor(place: Place) -> str:
    return cursors.encode([value.isoformat() if isinstance(value, datetime) else value for value in place])


def _after(rows: QuerySet[Row], column: str, cursor: str, read: Callable[[str], object]) -> QuerySet[Row]:
    if not cursor:
        return rows
    is_newest_first = column == NEWEST_FIRST
    match cursors.decode(cursor):
        case [int(pk)] if is_newest_first and abs(pk) <= LARGEST_ID:
            return rows.filter(pk__lt=pk)
        case [str(text), int(pk)] if not is_newest_first and abs(pk) <= LARGEST_ID:
            value = read(text)
            return rows.filter(
                Q(**{f"{column}__gt": value}) | Q(**{column: value, "pk__gt": pk}), **{f"{column}__gte": value}
            )
    raise cursors.BadCursor


def _until(rows: QuerySet[Row], column: str, last: Place) -> QuerySet[Row]:
    """Return the rows up to the last place."""
    *values, pk = last
    if not values:
        return rows.filter(pk__gte=pk)
    [value] = values
    return rows.filter(Q(**{f"{column}__lt": value}) | Q(**{column: value, "pk__lte": pk}), **{f"{column}__lte": value})
