"""captured_fetches: shows a test which URLs were requested, and lets it answer them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, overload

from django.db.models import Max

from weir.testing import answers
from weir.testing.servers import without_servers
from weir.workers.fetches.batches import counting
from weir.workers.fetches.jobs import Answer, Event, Failure, Job
from weir.workers.fetches.models import Fetch, FetchQuerySet, FetchState
from weir.workers.watches import asking, judging

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


class CapturedFetches(Sequence[Fetch]):
    """The fetches that were requested in a block of `captured_fetches`, read from PostgreSQL at each access.

    They are in the order of the requests, without fetches that were rolled back, and without robots.txt. A request that
    `dedupe` answers with an unfinished fetch adds no further fetch.
    """

    def __init__(self) -> None:
        self._after: int = Fetch.objects.aggregate(last=Max("pk"))["last"] or 0

    @property
    def urls(self) -> list[str]:
        """The URLs, as they were requested."""
        return list(self._rows().values_list("url", flat=True))

    def answer(
        self,
        fetch: Fetch | str,
        status: int = 200,
        body: bytes | str | dict[str, Any] | list[Any] = b"",
        *,
        headers: Headers = (),
    ) -> Fetch:
        """Answer a fetch in the place of its site; returns the fetch as it is stored afterwards.

        `fetch` may be a URL: it stands for the first unfinished fetch of this URL. The answer is judged and stored as a
        fetcher would do it, and the tasks of `on_done` and `on_batch_done` are called before this method returns. So an
        answer is one attempt: after a 5xx or a 429, the fetch is queued again while it has attempts left. After a
        redirect, the fetch is queued for the URL in Location; to answer it again, name it by its first URL or by that
        URL. `body` is the content: bytes, a str in UTF-8, or a dict or list as JSON. robots.txt is not asked for.

        Raises LookupError if no such fetch was requested, ValueError for a fetch that has ended, and
        TransactionManagementError inside a transaction of the test's own, because a worker would not see the fetch.
        """
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        sent = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs)
        return _ended(
            self._found(fetch),
            lambda job: Answer(
                job=job, status_code=status, headers=sent, body=_bytes(body), lateness_ms=0.0, elapsed_ms=0.0
            ),
        )

    def fail(self, fetch: Fetch | str, error: str = "no answer in time") -> Fetch:
        """Let the fetch end as `failed` with this error, even if it has attempts left; otherwise as `answer`."""
        return _ended(
            self._found(fetch),
            lambda job: Failure(job=job, error=error, permanent=True, lateness_ms=0.0, elapsed_ms=0.0),
        )

    def watch(self) -> None:
        """Ask for the pages of all watches, as if their periods were over. A page that is still unanswered stays so.

        The task of `on_change` is called before `answer` returns.
        """
        asking.let_all_be_due()
        asking.ask_due()

    def _rows(self) -> FetchQuerySet:
        return Fetch.objects.asked_for().filter(pk__gt=self._after).order_by("pk")

    def _found(self, fetch: Fetch | str) -> Fetch:
        if isinstance(fetch, Fetch):
            return fetch
        asked = [row for row in self if fetch in {row.url, row.hop_url}]
        for row in asked:
            if row.state == FetchState.QUEUED:
                return row
        if asked:
            return asked[-1]
        raise LookupError(f"{fetch} was not asked for. What was: {self.urls}.")

    def __len__(self) -> int:
        return self._rows().count()

    def __iter__(self) -> Iterator[Fetch]:
        return iter(self._rows())

    @overload
    def __getitem__(self, place: int) -> Fetch: ...
    @overload
    def __getitem__(self, place: slice) -> list[Fetch]: ...
    def __getitem__(self, place: int | slice) -> Fetch | list[Fetch]:
        return list(self._rows())[place]

    def __repr__(self) -> str:
        return f"<fetches of {self.urls}>"


@contextmanager
def captured_fetches() -> Iterator[CapturedFetches]:
    """Keep all fetches of the block from being sent; yields the requested fetches, which the test may answer.

    Implies `without_servers`.
    """
    with without_servers():
        yield CapturedFetches()


def _ended(fetch: Fetch, event_of: Callable[[Job], Event]) -> Fetch:
    """End the fetch, judge it if it is one of a watch, and end its batch; returns it as it is stored afterwards."""
    answers.end(fetch, event_of)
    judging.judge_ended()
    counting.settle()
    return Fetch.objects.get(pk=fetch.pk)


def _bytes(body: bytes | str | dict[str, Any] | list[Any]) -> bytes:
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()
