"""The fetches that one call of `request_fetches` returns: their ids and rows; and what makes two fetches the same."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import overload
from uuid import UUID

from weir.workers.fetches.models import Fetch

PAGE = 1_000  # rows that are read together


class RequestedFetches(Sequence[Fetch]):
    """Fetches in the order of the request: a sequence that does not change.

    `ids` has the id of each fetch, in 8 bytes. The rows are as they were stored. If there are more than 5,000 fetches,
    no rows are kept: a row is read from the database every time it is accessed, and Fetch.DoesNotExist is raised for a
    fetch that was rolled back, or has been deleted since.
    """

    def __init__(self, ids: Iterable[int], rows: Sequence[Fetch] | None = None) -> None:
        self.ids = array("q", ids)
        self._rows = rows

    @classmethod
    def keeping(cls, rows: Sequence[Fetch]) -> "RequestedFetches":
        """Return fetches whose rows are kept."""
        return cls((row.pk for row in rows), rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self):,}>"

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Fetch]:
        if self._rows is not None:
            yield from self._rows
            return
        for start in range(0, len(self.ids), PAGE):
            yield from _read(self.ids[start : start + PAGE])

    @overload
    def __getitem__(self, place: int) -> Fetch: ...
    @overload
    def __getitem__(self, place: slice) -> "RequestedFetches": ...
    def __getitem__(self, place: int | slice) -> "Fetch | RequestedFetches":
        if isinstance(place, slice):
            return RequestedFetches(self.ids[place], None if self._rows is None else self._rows[place])
        if self._rows is not None:
            return self._rows[place]
        [row] = _read([self.ids[place]])
        return row


def dedupe_key(
    url: str,
    *,
    on_done: str,
    revalidate: bool,
    headers: Mapping[str, str] | None = None,
    request: str = "",
    batch: str | None = None,
    share: str | None = None,
    reference: str | None = None,
) -> UUID:
    """Return the dedupe key of a fetch: the same for the same URL as sent, and all else that is given.

    `request` tells the rest of the request from others (`GivenRequest.fingerprint`); it is empty for most.
    """
    given = sorted(f"{name.lower()}: {value}" for name, value in (headers or {}).items())
    # An empty line, which no other text has: a share or a batch is not taken for a part of the request.
    named = (("share", share), ("batch", batch), ("reference", reference))
    more = [f"\n{name} {value}" for name, value in named if value]
    parts = [on_done, str(revalidate), url, *given, *([request] if request else ()), *more]
    text = "\n".join(parts)  # none has a line break but those
    return UUID(bytes=sha256(text.encode()).digest()[:16])


def _read(ids: Sequence[int]) -> Iterator[Fetch]:
    rows = Fetch.objects.in_bulk(list(ids))
    for fetch_id in ids:
        if fetch_id not in rows:
            raise Fetch.DoesNotExist(f"Fetch {fetch_id} was rolled back, or has been deleted.")
        yield rows[fetch_id]
