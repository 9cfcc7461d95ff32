"""Watching: web code has URLs fetched again and again, and a task called when a page has changed.

    from weir import watch
    watch("https://example.com/prices", every=timedelta(hours=1), on_change="shop.tasks.prices_changed")

1. The row is written in the caller's transaction, once for each key (sql/watch.sql).
2. A tick, once a second, queues a fetch for each watch that is due (asking.py).
3. The same tick judges what the fetches brought, and lets those that brought a change call `on_change` (judging.py).
"""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction

from weir.conf.texts.request_headers import usable_headers
from weir.conf.texts.share_weights import usable_share
from weir.postgres.statements import Statement
from weir.workers.fetches.enqueue import PRIORITIES
from weir.workers.fetches.targets import InvalidTarget, parse_target
from weir.workers.on_done.names import name_of
from weir.workers.watches.models import Watch

if TYPE_CHECKING:
    from celery import Task

SHORTEST: Final = timedelta(seconds=1)
LONGEST: Final = timedelta(days=366)
MOST_JITTER: Final = 0.5
LONGEST_KEY: Final = 80_000  # characters: a URL as it is sent, and what the API puts before it
BATCH: Final = 5_000  # rows of one INSERT

WATCH = Statement("watch", returns=bool, commits=False)


class WantedWatch(NamedTuple):
    """The columns that may differ between the watches of a call."""

    key: str
    dedupe_key: UUID
    url: str
    host: str
    place: int


def watch(
    url: str,
    *,
    every: timedelta,
    key: str | None = None,
    jitter: float = 0.1,
    adapt: tuple[timedelta, timedelta] | None = None,
    priority: int = 0,
    revalidate: bool = True,
    headers: Mapping[str, str] | None = None,
    on_change: "str | Task[Any, Any] | None" = None,
    tell_first: bool = False,
    share: str | None = None,
) -> Watch:
    """Watch one URL, at once and then in each period; see `watch_many`. `key` is its name, by default the URL."""
    watch_many(
        {url if key is None else key: url},
        every=every,
        jitter=jitter,
        adapt=adapt,
        priority=priority,
        revalidate=revalidate,
        headers=headers,
        on_change=on_change,
        tell_first=tell_first,
        share=share,
    )
    return Watch.objects.get(dedupe_key=hash_of(url if key is None else key))


def watch_many(
    urls: Iterable[str] | Mapping[str, str],
    *,
    every: timedelta,
    jitter: float = 0.1,
    adapt: tuple[timedelta, timedelta] | None = None,
    priority: int = 0,
    revalidate: bool = True,
    headers: Mapping[str, str] | None = None,
    on_change: "str | Task[Any, Any] | None" = None,
    tell_first: bool = False,
    share: str | None = None,
) -> int:
    """Watch many URLs, in a few statements; returns how many of the watches are new.

    Each URL is fetched once in each period, at the rate of its site. A period is `every`, longer or shorter by a random
    share of up to `jitter`. With `adapt`, a shortest and a longest period, a period is half as long after a change, and
    1.5 times as long after a fetch without one. The first fetches of one call are spread over a period.
    While a fetch is unfinished, no other one is queued; periods that were missed are not made up for.

    `on_change` is a Celery task, or its name: it is called with the id of each fetch whose body differs from the last
    good body, at least once for each. With `tell_first` it is also called for the first body. Bodies are compared after
    decompression, by SHA-256. A failed fetch, and one with a status that is not 2xx or 304, changes nothing; it shows
    in `Watch.error`. `headers`, `priority`, `revalidate` and `share` are those of the fetches (`request_fetches`).

    `urls` may map keys to URLs. A watch is known by its key, by default the URL as it is sent. A second call for a key
    changes that watch, for any number of concurrent callers, within the caller's transaction. If the URL or the headers
    change, the next body counts as the first one.

    Raises ValueError for a text that is not a URL Weir fetches, `every` outside of a second to 366 days, `jitter`
    outside of 0 to 0.5, bounds that do not enclose `every`, an empty key, and as `request_fetches` does; TypeError for
    values of other types. Nothing is stored then.
    """
    wanted = _wanted(urls)
    shortest, longest = _bounds(every, adapt)
    if isinstance(jitter, bool) or not isinstance(jitter, (int, float)):
        raise TypeError(f"jitter must be a number, not {jitter!r}.")
    if not 0 <= jitter <= MOST_JITTER:
        raise ValueError(f"jitter must be between 0 and {MOST_JITTER}, a share of the period, not {jitter}.")
    if priority not in PRIORITIES:
        raise ValueError(f"priority must be between {PRIORITIES[0]} and {PRIORITIES[-1]}, not {priority}.")
    usable = usable_headers(headers or {})
    common: dict[str, Any] = {
        "request_headers": json.dumps(usable) if usable else None,
        "priority": priority,
        "revalidate": revalidate,
        "every": every,
        "jitter": float(jitter),
        "shortest": shortest,
        "longest": longest,
        "tell_first": tell_first,
        "on_change": name_of(on_change, "on_change"),
        "share": usable_share(share) or "",
        "total": max(1, len(wanted)),
    }
    with transaction.atomic():
        return sum(_store(wanted[start : start + BATCH], common) for start in range(0, len(wanted), BATCH))


def unwatch(*keys: str) -> int:
    """Remove the watches that have these keys, in the caller's transaction; returns how many there were.

    A fetch that is unfinished ends as any other, and calls nothing.
    """
    deleted, _ = Watch.objects.filter(dedupe_key__in=[hash_of(key) for key in keys]).delete()
    return deleted


def hash_of(key: str) -> UUID:
    """Return the hash of a key, which is the dedupe key of its fetches. A URL counts as it is sent."""
    return _hash(_spelled(key))


def _wanted(urls: Iterable[str] | Mapping[str, str]) -> list[WantedWatch]:
    """Return the watches in the order of their hashes; of several with one key, the last."""
    if isinstance(urls, str):
        raise TypeError("urls must be several URLs, not one str: use watch for one URL.")
    pairs = list(urls.items()) if isinstance(urls, Mapping) else [(url, url) for url in urls]
    found = {one.dedupe_key: one for place, (key, url) in enumerate(pairs) for one in [_read(key, url, place)]}
    return sorted(found.values(), key=lambda one: one.dedupe_key)


def _read(key: object, url: object, place: int) -> WantedWatch:
    if not isinstance(url, str) or not isinstance(key, str):
        raise TypeError(
            f"Each URL, and each key, must be a str, but item {place} is {url if key == url else (key, url)!r}."
        )
    try:
        target = parse_target(url)
    except InvalidTarget as error:
        raise ValueError(f"Item {place} cannot be watched: {error}.") from error
    spelled = target.url if key == url else _spelled(key)
    if not 1 <= len(spelled) <= LONGEST_KEY or not spelled.isprintable():
        raise ValueError(
            f"Each key must have 1 to {LONGEST_KEY:,} printable characters, but that of item {place} has not."
        )
    return WantedWatch(key=spelled, dedupe_key=_hash(spelled), url=url, host=target.host, place=place)


def _spelled(key: str) -> str:
    """Return a URL as it is sent; any other key as it is."""
    try:
        return parse_target(key).url
    except InvalidTarget:
        return key


def _hash(spelled: str) -> UUID:
    # No fetch that is asked for with `dedupe` has such a text (weir.workers.fetches.requested).
    return UUID(bytes=sha256(f"weir watch\n\n{spelled}".encode("utf-8", "replace")).digest()[:16])


def _bounds(every: object, adapt: object) -> tuple[timedelta | None, timedelta | None]:
    """Return the bounds of the period; raises TypeError and ValueError."""
    match adapt:
        case None:
            periods = [_period(every)]
        case (shortest, longest):
            periods = [_period(shortest), _period(every), _period(longest)]
        case _:
            raise TypeError(f"adapt must be a shortest and a longest period, not {adapt!r}.")
    if sorted(periods) != periods:
        raise ValueError(f"adapt must enclose every: the shortest period, then the longest; not {adapt}.")
    return (None, None) if adapt is None else (periods[0], periods[-1])


def _period(given: object) -> timedelta:
    if not isinstance(given, timedelta):
        raise TypeError(f"every, and both periods of adapt, must be a timedelta, not {given!r}.")
    if not SHORTEST <= given <= LONGEST:
        raise ValueError(f"every, and both periods of adapt, must be between a second and 366 days, not {given}.")
    return given


def _store(wanted: list[WantedWatch], common: dict[str, Any]) -> int:
    columns = {f"{name}s": [getattr(one, name) for one in wanted] for name in WantedWatch._fields}
    return sum(WATCH(**columns, **common))
