"""Enqueue: web code asks for URLs to be fetched, each at the rate of its site.

    from weir import request_fetch
    fetch = request_fetch("https://example.com/feed.xml", on_done="shop.tasks.feed_arrived")

1. Each text becomes a target (targets.py), and each target's host gets its site (ratelimit/sites.py).
2. The rows are inserted in the caller's transaction. If it rolls back, nothing was asked for.
3. When the caller has committed, the robots.txt of the targets' origins is queued if it is needed (robots/files.py),
   the backlog flags of the sites are activated (backlog.py), and `on_done` is called for texts that are not URLs.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, transaction

from weir.conf.texts.request_headers import usable_headers
from weir.postgres.moments import in_utc
from weir.postgres.statements import Statement
from weir.postgres.texts import storable
from weir.ratelimit.sites import sites_of
from weir.workers.fetches import backlog
from weir.workers.fetches.addresses import Allowed, allowed_by_settings
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.on_done.calls import Ended, call_on_done
from weir.workers.fetches.on_done.names import name_of
from weir.workers.fetches.requested import RequestedFetches, dedupe_key
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.robots.rules import origin_of
from weir.workers.fetches.targets import MAX_LENGTH, InvalidTarget, parse_target
from weir.workers.tracing import correlation, spans

if TYPE_CHECKING:
    from celery import Task

PRIORITIES = range(-32_768, robots_files.PRIORITY)
MOST_ATTEMPTS = 32_767
STORED_LENGTH = 2 * MAX_LENGTH
KEPT = 5_000  # rows of 3 kB that a call keeps; of more fetches, only ids. Without `dedupe`, also the rows of one INSERT


class WantedFetch(NamedTuple):
    """What one text asks for: the columns that may differ between the fetches of a call."""

    url: str
    hop_url: str
    site_id: int | None
    error: str
    dedupe_key: UUID | None


class InsertedFetch(NamedTuple):
    """What the database decided about a fetch; all None if none was inserted."""

    id: int | None
    state: str | None
    created_at: datetime | None
    not_before: datetime | None
    finished_at: datetime | None


ENQUEUE = Statement("enqueue", row=InsertedFetch, commits=False)


class New:
    """What workers are told, after the commit, about the new fetches of a call."""

    def __init__(self) -> None:
        self.sites: dict[str, int] = {}  # by origin
        self.failed: list[Ended] = []  # fetches that name a task

    def note(self, given: WantedFetch, row: InsertedFetch, common: Mapping[str, Any]) -> int:
        """Record a new fetch; returns its id."""
        fetch_id = cast("int", row.id)
        if given.site_id is not None:
            self.sites[origin_of(given.hop_url)] = given.site_id
        elif common["on_done"]:
            self.failed.append(Ended(fetch_id, common["on_done"], common["correlation_id"]))
        return fetch_id

    def add(self, given: WantedFetch, row: InsertedFetch, common: Mapping[str, Any]) -> Fetch:
        """Record a new fetch; returns it as if read from the database: its times are from the database's clock."""
        self.note(given, row, common)
        fetch = Fetch(**given._asdict(), **common, **row._asdict())
        fetch._state.adding, fetch._state.db = False, DEFAULT_DB_ALIAS  # noqa: SLF001  Django's documented attribute
        return fetch


def request_fetch(
    url: str,
    *,
    priority: int = 0,
    not_before: datetime | None = None,
    max_attempts: int = 5,
    on_done: "str | Task[Any, Any] | None" = None,
    revalidate: bool = False,
    headers: Mapping[str, str] | None = None,
    dedupe: bool = False,
) -> Fetch:
    """Ask for one URL; see `request_fetches`."""
    [fetch] = request_fetches(
        [url],
        priority=priority,
        not_before=not_before,
        max_attempts=max_attempts,
        on_done=on_done,
        revalidate=revalidate,
        headers=headers,
        dedupe=dedupe,
    )
    return fetch


def request_fetches(
    urls: Iterable[str],
    *,
    priority: int = 0,
    not_before: datetime | None = None,
    max_attempts: int = 5,
    on_done: "str | Task[Any, Any] | None" = None,
    revalidate: bool = False,
    headers: Mapping[str, str] | None = None,
    dedupe: bool = False,
) -> RequestedFetches:
    """Ask for many URLs in a few statements; returns their fetches, in the order of the URLs.

    Each is accepted: it ends `done`, `failed` or `cancelled`. A text that is not a URL Weir fetches, or whose address
    or port the settings forbid, is stored as a failed fetch that says why; the others go ahead. Higher `priority` goes
    first within a site, then age. `not_before` (aware) is the earliest start. `max_attempts` bounds the attempts after
    network errors, and answers that refuse (429) or fail (5xx). `on_done` is a Celery task, or its name: it is called
    with the fetch's id when the fetch has ended, at least once.
    With `revalidate` the site is asked only whether the last good result of the URL still holds, if there is one. If it
    does, the fetch ends `done` with status 304, and its `content` is the earlier body.
    `headers` are headers of the request, by name; they replace those of the site (`set_rate`). `{secret:NAME}` in a
    value stands for a secret, which the fetcher puts there (weir.conf.secrets). Once a redirect has led to another
    origin, none of them is sent but Accept, Accept-Language and User-Agent.

    With `dedupe`, a URL that has an unfinished fetch gets that fetch, as it is, instead of a new one: if that fetch was
    asked for with `dedupe` too, and with the same `on_done`, `revalidate` and `headers`. This holds for any number of
    concurrent callers. While another transaction that asks for the same URL is open, this call waits for its end.

    Raises ValueError for a priority outside -32,768 to 32,766 (robots.txt files go before all others), `max_attempts`
    outside 1 to 32,767, a `not_before` without a time zone or outside of the years 1 to 9999 of UTC, headers that no
    request may have, an `on_done` of more than 200 characters, or one that begins with the name of an installed app,
    which has no such task: a name of another service's task is accepted; TypeError for one text instead of many, an
    item that is not a text, and a `not_before`, `on_done` or header of another type; SitesLocked if other transactions
    block the site of a new host for ten seconds. Nothing is stored then.

    The site of a new host is committed immediately, on a connection of its own if a transaction is open, and stays even
    if that transaction rolls back: no caller waits for another caller's transaction.
    """
    texts = _texts(urls)
    if priority not in PRIORITIES:
        raise ValueError(
            f"priority must be between {PRIORITIES[0]} and {PRIORITIES[-1]}, not {priority}: "
            "only the robots.txt that Weir asks for goes before all others."
        )
    if not 1 <= max_attempts <= MOST_ATTEMPTS:
        raise ValueError(f"max_attempts must be between 1 and {MOST_ATTEMPTS}, not {max_attempts}.")
    not_before = in_utc("not_before", not_before)
    common: dict[str, Any] = {
        "priority": priority,
        "max_attempts": max_attempts,
        "on_done": name_of(on_done),
        "revalidate": revalidate,
        "correlation_id": correlation.current(),
        "request_headers": usable_headers(headers or {}) or None,
    }
    with spans.span("enqueue fetches", {"weir.fetches": len(texts)}):
        common["traceparent"] = spans.traceparent()
        wanted = _wanted(texts, common, dedupe=dedupe)
        fetches, new = (_queue_once if dedupe else _queue_all)(wanted, not_before, common)
    # Robust: by then the fetches are committed, and web code must not get an error. Sweep finds the fetches.
    transaction.on_commit(lambda: _tell_workers(new), robust=True)
    return fetches


def _texts(urls: Iterable[str]) -> list[str]:
    """Return the texts that are asked for; raises TypeError for one text alone, and for an item that is not a text."""
    if isinstance(urls, str):
        raise TypeError("urls must be several URLs, not one str: use request_fetch for one URL.")
    texts = list(urls)
    if others := [place for place, text in enumerate(texts) if not isinstance(text, str)]:
        raise TypeError(f"Each URL must be a str, but item {others[0]} is {texts[others[0]]!r}.")
    return texts


def _wanted(texts: Sequence[str], common: dict[str, Any], *, dedupe: bool) -> list[WantedFetch]:
    """Return the columns of each text's fetch, except those that all fetches of the call share."""
    allowed = allowed_by_settings()
    hosts: dict[str, str] = {}
    parsed = [_parsed(text, allowed, hosts) for text in texts]
    sites = sites_of(hosts.keys())
    alike = {"on_done": common["on_done"], "revalidate": common["revalidate"], "headers": common["request_headers"]}
    return [
        WantedFetch(
            url=text if url else storable(text, STORED_LENGTH),
            hop_url=url,
            site_id=sites[host] if url else None,
            error=error,
            dedupe_key=dedupe_key(url, **alike) if dedupe and url else None,
        )
        for text, (url, host, error) in zip(texts, parsed, strict=True)
    ]


def _insert(
    wanted: Sequence[WantedFetch], not_before: datetime | None, common: dict[str, Any]
) -> Iterator[tuple[WantedFetch, InsertedFetch]]:
    """Insert the fetches; yields each with what the database decided."""
    parameters = {
        "urls": [one.url for one in wanted],
        "hop_urls": [one.hop_url for one in wanted],
        "sites": [one.site_id for one in wanted],
        "errors": [one.error for one in wanted],
        "dedupe_keys": [one.dedupe_key for one in wanted],
        "not_before": not_before,
        **common,
        "request_headers": common["request_headers"] and json.dumps(common["request_headers"]),
    }
    rows = ENQUEUE(**parameters)
    return zip(wanted, rows, strict=True)


def _queue_all(
    wanted: Sequence[WantedFetch], not_before: datetime | None, common: dict[str, Any]
) -> tuple[RequestedFetches, New]:
    """Insert a fetch for each wanted one; returns the fetches, and the new ones, which are all of them."""
    new = New()
    if len(wanted) <= KEPT:
        rows = [new.add(given, row, common) for given, row in _insert(wanted, not_before, common)]
        return RequestedFetches.keeping(rows), new
    ids = array("q")
    with transaction.atomic():
        for start in range(0, len(wanted), KEPT):
            inserted = list(_insert(wanted[start : start + KEPT], not_before, common))
            ids.extend(new.note(given, row, common) for given, row in inserted)
    return RequestedFetches(ids), new


def _queue_once(
    wanted: Sequence[WantedFetch], not_before: datetime | None, common: dict[str, Any]
) -> tuple[RequestedFetches, New]:
    """Insert the fetches whose key no unfinished fetch has; returns the fetch of each wanted one, and the new ones.

    1. Insert one fetch for each key, in the order of the keys. If an unfinished fetch has the key, none is inserted.
    2. Look up those unfinished fetches, in a new snapshot: they may have been committed while step 1 waited for them.
    3. If a fetch ended between steps 1 and 2, it is not found, and its key is free again. Then roll back and start
       again: a transaction that holds keys and asks for a lower one could deadlock. In each round another fetch has
       ended, so the number of rounds is limited.
    """
    firsts: dict[object, int] = {}
    places = array("q", (firsts.setdefault(one.dedupe_key or place, place) for place, one in enumerate(wanted)))
    distinct = [wanted[place] for place in firsts.values()]
    is_kept = len(wanted) <= KEPT
    while True:
        new = New()
        with transaction.atomic():
            add: Callable[..., Fetch | int] = new.add if is_kept else new.note
            inserted = _insert(distinct, not_before, common)
            queued = [None if row.id is None else add(given, row, common) for given, row in inserted]
            met = [given.dedupe_key for given, fetch in zip(distinct, queued, strict=True) if fetch is None]
            unfinished = Fetch.objects.unfinished().filter(dedupe_key__in=met)
            found: dict[Any, Fetch | int] = (
                {fetch.dedupe_key: fetch for fetch in unfinished}
                if is_kept
                else dict(unfinished.values_list("dedupe_key", "pk"))
            )
            if len(found) == len(met):
                break
            transaction.set_rollback(True)
    theirs = (fetch or found[given.dedupe_key] for given, fetch in zip(distinct, queued, strict=True))
    of_place = dict(zip(firsts.values(), theirs, strict=True))
    fetches: list[Any] = [of_place[place] for place in places]
    return RequestedFetches.keeping(fetches) if is_kept else RequestedFetches(fetches), new


def _parsed(text: str, allowed: Allowed, hosts: dict[str, str]) -> tuple[str, str, str]:
    """Return the URL that is sent, its host, and no error; or an empty URL and host, and why no URL is sent.

    There may be millions of texts: a URL that equals its text shares that string, and equal hosts share one string.
    """
    try:
        target = parse_target(text, allowed)
    except InvalidTarget as error:
        return "", "", str(error)
    return text if text == target.url else target.url, hosts.setdefault(target.host, target.host), ""


def _tell_workers(new: New) -> None:
    """Do what follows the caller's commit: step 3 of the module's head."""
    robots_files.ask(new.sites)
    backlog.activate(new.sites.values())
    call_on_done(new.failed)
