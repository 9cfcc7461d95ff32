"""Enqueue: web code asks for URLs to be fetched, each at the rate of its site.

    from workers.fetches.enqueue import request_fetch
    fetch = request_fetch("https://example.com/feed.xml", on_done="shop.tasks.feed_arrived")

1. Each text becomes a target (targets.py), and each target's host gets its site (ratelimit/sites.py).
2. The rows are inserted in the caller's transaction. What is rolled back was never asked for.
3. When the caller has committed, the robots.txt of the targets' origins is queued where it is needed (robots/files.py),
   the backlog flags of the sites are activated (backlog.py), and `on_done` of texts that are no URLs is called.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from celery import Task
from django.db import DEFAULT_DB_ALIAS, transaction

from postgres import statements
from postgres.moments import in_utc
from postgres.texts import storable
from ratelimit.sites import sites_of
from workers.fetches import backlog
from workers.fetches.addresses import Allowed, allowed_by_settings
from workers.fetches.models import LONGEST_TASK_NAME, Fetch, State
from workers.fetches.on_done import Ended, call_on_done
from workers.fetches.robots import files as robots_files
from workers.fetches.robots.rules import origin_of
from workers.fetches.targets import MAX_LENGTH, InvalidTarget, Target, parse_target
from workers.tracing import correlation, spans

PRIORITIES = range(-32_768, robots_files.PRIORITY)
MOST_ATTEMPTS = 32_767
STORED_LENGTH = 2 * MAX_LENGTH


class InsertedFetch(NamedTuple):
    """What the database decided about a fetch; all None where none was inserted."""

    id: int | None
    state: str | None
    created_at: datetime | None
    not_before: datetime | None
    finished_at: datetime | None


def request_fetch(
    url: str,
    *,
    priority: int = 0,
    not_before: datetime | None = None,
    max_attempts: int = 5,
    on_done: str | Task[Any, Any] | None = None,
    revalidate: bool = False,
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
        dedupe=dedupe,
    )
    return fetch


def request_fetches(
    urls: Iterable[str],
    *,
    priority: int = 0,
    not_before: datetime | None = None,
    max_attempts: int = 5,
    on_done: str | Task[Any, Any] | None = None,
    revalidate: bool = False,
    dedupe: bool = False,
) -> list[Fetch]:
    """Ask for many URLs, in their order, in a few statements; returns their rows.

    Each is accepted: it ends `done`, `failed` or `cancelled`. A text that is no URL Weir fetches, or whose address or
    port the settings forbid, is stored as a failed fetch that says why, and hinders none of the others. Higher
    `priority` goes first within a site, then age. `not_before` (aware) is the earliest start. `max_attempts` bounds the
    attempts after network errors, and answers that refuse (429) or fail (5xx). `on_done` is a Celery task, or its name:
    it is called with the fetch's id when the fetch has ended, at least once.
    With `revalidate` the site is asked only whether the last good result of the URL still holds, if there is one. Where
    it does, the fetch ends `done` with status 304, and its `content` is the earlier body.

    With `dedupe`, a URL that has an unfinished fetch gets that fetch, as it is, instead of a new one: if that fetch was
    asked for with `dedupe` too, and with the same `on_done` and `revalidate`. This holds for any number of callers at
    once. While another transaction that asks for the same URL is open, this call waits for its end.

    Raises ValueError for a priority outside -32,768 to 32,766 (robots.txt files go before all others), `max_attempts`
    outside 1 to 32,767, a `not_before` without a time zone or outside of the years 1 to 9999 of UTC, or an `on_done` of
    more than 200 characters; TypeError for one text instead of many, an item that is no text, and a `not_before` or
    `on_done` of another type; SitesLocked where other transactions are in the way of a new host's site for ten seconds.
    Nothing is stored then.

    The site of a new host is committed at once, on a connection of its own where a transaction is open, and stays where
    that one is rolled back: no caller waits for the transaction of another one.
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
        "on_done": _task_name(on_done),
        "revalidate": revalidate,
        "correlation_id": correlation.current(),
    }
    with spans.span("enqueue fetches", {"weir.fetches": len(texts)}):
        common["traceparent"] = spans.traceparent()
        wanted = _wanted(texts, common, dedupe=dedupe)
        if dedupe:
            fetches, new = _queue_once(wanted, not_before, common)
        else:
            fetches = new = [fetch for fetch in _queue(wanted, not_before, common) if fetch is not None]
    # Robust: the fetches are committed by then, and an error would hit web code that has succeeded. Sweep finds them.
    transaction.on_commit(lambda: _tell_workers(new), robust=True)
    return fetches


def dedupe_key(url: str, *, on_done: str, revalidate: bool) -> UUID:
    """Return the dedupe key of a fetch, which is the same for the same URL as it is sent, call and kind of answer."""
    return UUID(bytes=sha256(f"{on_done}\n{revalidate}\n{url}".encode()).digest()[:16])  # a URL has no line break


def _texts(urls: Iterable[str]) -> list[str]:
    """Return the texts that are asked for; raises TypeError for one text alone, and for an item that is no text."""
    if isinstance(urls, str):
        raise TypeError("urls must be several URLs, not one str: use request_fetch for one URL.")
    texts = list(urls)
    if others := [place for place, text in enumerate(texts) if not isinstance(text, str)]:
        raise TypeError(f"Each URL must be a str, but item {others[0]} is {texts[others[0]]!r}.")
    return texts


def _task_name(on_done: object) -> str:
    """Return the name of the task to call at the end; empty without one."""
    name = on_done.name if isinstance(on_done, Task) else on_done or ""
    if not isinstance(name, str):
        raise TypeError(f"on_done must be a Celery task or its name, not {on_done!r}.")
    if len(name) > LONGEST_TASK_NAME:
        raise ValueError(f"on_done must be of at most {LONGEST_TASK_NAME} characters, not {len(name)}: {name!r}.")
    return name


def _wanted(texts: Sequence[str], common: dict[str, Any], *, dedupe: bool) -> list[dict[str, Any]]:
    """Return the columns of each text's fetch, but for those that all of them have in common."""
    allowed = allowed_by_settings()
    targets = [_parsed(text, allowed) for text in texts]
    sites = sites_of({target.host for target in targets if isinstance(target, Target)})
    return [
        {
            "url": text,
            "hop_url": target.url,
            "site_id": sites[target.host],
            "error": "",
            "dedupe_key": dedupe_key(target.url, on_done=common["on_done"], revalidate=common["revalidate"])
            if dedupe
            else None,
        }
        if isinstance(target, Target)
        else {
            "url": storable(text, STORED_LENGTH),
            "hop_url": "",
            "site_id": None,
            "error": str(target),
            "dedupe_key": None,
        }
        for text, target in zip(texts, targets, strict=True)
    ]


def _queue(wanted: Sequence[dict[str, Any]], not_before: datetime | None, common: dict[str, Any]) -> list[Fetch | None]:
    """Insert the fetches; returns None in the place of one whose key an unfinished fetch has."""
    rows = statements.run_within(
        "workers.fetches",
        "enqueue",
        {
            "urls": [row["url"] for row in wanted],
            "hop_urls": [row["hop_url"] for row in wanted],
            "sites": [row["site_id"] for row in wanted],
            "errors": [row["error"] for row in wanted],
            "dedupe_keys": [row["dedupe_key"] for row in wanted],
            "not_before": not_before,
            **common,
        },
        row=InsertedFetch,
    )
    # As if read from the database: their times are those of its clock.
    fetches = [
        None if row.id is None else Fetch(**given, **common, **row._asdict())
        for given, row in zip(wanted, rows, strict=True)
    ]
    for fetch in filter(None, fetches):
        fetch._state.adding, fetch._state.db = False, DEFAULT_DB_ALIAS  # noqa: SLF001  Django's documented attribute
    return fetches


def _queue_once(
    wanted: Sequence[dict[str, Any]], not_before: datetime | None, common: dict[str, Any]
) -> tuple[list[Fetch], list[Fetch]]:
    """Insert the fetches whose key no unfinished fetch has; returns the fetch of each wanted one, and the new ones.

    1. Insert one fetch for each key, in the order of the keys. Where an unfinished fetch has the key, none is inserted.
    2. Look those unfinished fetches up, in a new snapshot: they may have been committed while 1 waited for them.
    3. A fetch that ended between 1 and 2 is not found, and its key is free again. Then roll back and begin anew: a
       transaction that holds keys and asks for a lower one could deadlock. Each round means that a fetch has ended, so
       the rounds come to an end.
    """
    firsts: dict[object, int] = {}
    places = [firsts.setdefault(row["dedupe_key"] or place, place) for place, row in enumerate(wanted)]
    distinct = sorted(firsts.values())
    while True:
        with transaction.atomic():
            queued = _queue([wanted[place] for place in distinct], not_before, common)
            met = [wanted[place]["dedupe_key"] for place, fetch in zip(distinct, queued, strict=True) if fetch is None]
            found = {fetch.dedupe_key: fetch for fetch in Fetch.objects.unfinished().filter(dedupe_key__in=met)}
            if len(found) == len(met):
                break
            transaction.set_rollback(True)
    of_place = {
        place: fetch or found[wanted[place]["dedupe_key"]] for place, fetch in zip(distinct, queued, strict=True)
    }
    return [of_place[place] for place in places], [fetch for fetch in queued if fetch is not None]


def _parsed(text: str, allowed: Allowed) -> Target | InvalidTarget:
    try:
        return parse_target(text, allowed)
    except InvalidTarget as error:
        return error


def _tell_workers(fetches: list[Fetch]) -> None:
    """Do what follows the caller's commit: step 3 of the module's head."""
    sites = {origin_of(fetch.hop_url): fetch.site_id for fetch in fetches if fetch.site_id is not None}
    robots_files.ask(sites)
    backlog.activate(sites.values())
    call_on_done(
        Ended(fetch.pk, fetch.on_done, fetch.correlation_id)
        for fetch in fetches
        if fetch.on_done and fetch.state == State.FAILED
    )
