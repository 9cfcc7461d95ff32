"""The fetches of a call that asked for very many: their ids, and each row when it is looked at."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from weir.workers.fetches.models import Fetch

PAGE = 1_000  # rows that are read together


class Requested(Sequence[Fetch]):
    """Fetches in the order in which they were asked for. A row is read from the database each time it is looked at.

    `ids` has the id of each, 8 bytes long. Raises Fetch.DoesNotExist for a row that was rolled back, or deleted since.
    """

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = array("q", ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Fetch]:
        for start in range(0, len(self.ids), PAGE):
            yield from _rows(self.ids[start : start + PAGE])

    @overload
    def __getitem__(self, place: int) -> Fetch: ...
    @overload
    def __getitem__(self, place: slice) -> "Requested": ...
    def __getitem__(self, place: int | slice) -> "Fetch | Requested":
        if isinstance(place, slice):
            return Requested(self.ids[place])
        [row] = _rows([self.ids[place]])
        return row


def _rows(ids: Sequence[int]) -> Iterator[Fetch]:
    rows = Fetch.objects.in_bulk(list(ids))
    for fetch_id in ids:
        if fetch_id not in rows:
            raise Fetch.DoesNotExist(f"Fetch {fetch_id} was rolled back, or has been deleted.")
        yield rows[fetch_id]
