"""Enqueue: web code asks for URLs to be fetched, each at the rate of its site.

    from weir import request_fetch
    fetch = request_fetch("https://example.com/feed.xml", on_done="shop.tasks.feed_arrived")

1. Each text becomes a target (targets.py), and each target's host gets its site (ratelimit/sites.py).
2. The rows are inserted in the caller's transaction. If it rolls back, nothing was asked for.
3. When the caller has committed, the robots.txt of the targets' origins is queued if it is needed (robots/files.py),
   the backlog flags of the sites are activated (backlog.py), and `on_done` is called for texts that are not URLs.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction

from weir.conf.texts.references import usable_references
from weir.conf.texts.share_weights import usable_share
from weir.postgres.moments import in_utc
from weir.postgres.texts import storable
from weir.ratelimit.sites import KnownSite, begin_turns, each_site_of
from weir.workers.fetches import backlog
from weir.workers.fetches.addresses import Allowed, allowed_by_settings
from weir.workers.fetches.batches.joining import wanted_batch
from weir.workers.fetches.enqueue.given import Form, GivenRequest, given_request
from weir.workers.fetches.enqueue.inserting import New, WantedFetch, queue_all, queue_once
from weir.workers.fetches.methods import USUAL_REDIRECTS
from weir.workers.fetches.models import HIGHEST_PRIORITY, Fetch
from weir.workers.fetches.on_done.calls import call_on_done
from weir.workers.fetches.requested import RequestedFetches, dedupe_key
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.targets import MAX_LENGTH, InvalidTarget, parse_target
from weir.workers.on_done.names import name_of
from weir.workers.tracing import correlation, spans

if TYPE_CHECKING:
    from celery import Task

PRIORITIES = range(-32_768, HIGHEST_PRIORITY)
MOST_ATTEMPTS = 32_767
STORED_LENGTH = 2 * MAX_LENGTH


def request_fetch(
    url: str,
    *,
    priority: int = 0,
    not_before: datetime | None = None,
    max_attempts: int = 5,
    on_done: "str | Task[Any, Any] | None" = None,
    revalidate: bool = False,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    body: bytes | None = None,
    json: Any = None,  # noqa: ANN401  whatever json.dumps takes
    form: Form | None = None,
    repeatable: bool = False,
    max_redirects: int = USUAL_REDIRECTS,
    dedupe: bool = False,
    batch: str | None = None,
    on_batch_done: "str | Task[Any, Any] | None" = None,
    more_to_come: bool = False,
    share: str | None = None,
    reference: str | None = None,
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
        method=method,
        body=body,
        json=json,
        form=form,
        repeatable=repeatable,
        max_redirects=max_redirects,
        dedupe=dedupe,
        batch=batch,
        on_batch_done=on_batch_done,
        more_to_come=more_to_come,
        share=share,
        reference=reference,
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
    method: str = "GET",
    body: bytes | None = None,
    json: Any = None,  # noqa: ANN401  whatever json.dumps takes
    form: Form | None = None,
    repeatable: bool = False,
    max_redirects: int = USUAL_REDIRECTS,
    dedupe: bool = False,
    batch: str | None = None,
    on_batch_done: "str | Task[Any, Any] | None" = None,
    more_to_come: bool = False,
    share: str | None = None,
    reference: str | Sequence[str | None] | None = None,
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
    origin, none of them is sent but Accept, Accept-Language, Range, If-Range and User-Agent.

    `method` is GET, HEAD, POST, PUT, PATCH or DELETE. The last four may have a body: `body` (bytes), `json` (what
    json.dumps takes; None is no body) or `form` (texts by name, or pairs). `repeatable` says that the site can bear
    such a request more than once: it is sent at least once, each time with the same Idempotency-Key, of the caller's
    `headers` or of its own. No redirect takes it to another origin. `max_redirects` (0 to 20) bounds the redirects that
    are followed; with 0, a redirect is the result.

    `share` says whose the fetches are, such as "tenant-7" (100 characters at most). The shares of a site take turns
    there, each with one fetch, or as many as its weight (`set_rate`); fetches without a share take turns as one share
    more. Priority and age count within a share.

    `reference` is what the caller calls the fetches, such as "page-42" (200 characters at most): a text for all, or a
    list with one for each URL. Lists find fetches by it, and events have it. It need not be unique.

    With `dedupe`, a URL that has an unfinished fetch gets that fetch, as it is, instead of a new one: if that fetch was
    asked for with `dedupe` too, and with the same `on_done`, `revalidate`, request, `share`, `batch` and `reference`.
    This holds for any number of concurrent callers. While another transaction that asks for the same URL is open, this
    call waits for its end.

    `batch` is a name of the caller's: its fetches are counted together (`batch_counts`), cancelled and retried together
    (`cancel_batch`, `retry_batch`). `on_batch_done` is a Celery task, or its name: it is called with the batch's name
    when nothing of the batch is left, at least once. The last call that names one decides. With `more_to_come`, it is
    not called before a call for the batch without it, which may have no URLs. Each call opens a batch that has ended
    again, and it ends anew. A call that makes the batch makes others for the same name wait until it has committed.

    Raises ValueError, and stores nothing, for

    - a priority outside -32,768 to 32,766 (what Weir asks for goes before all), `max_attempts` outside 1 to 32,767, and
      a `not_before` without a time zone, or outside the years 1 to 9999 of UTC;
    - a method that needs `repeatable`, a body larger than WEIR_FETCH_MAX_REQUEST_BODY, and a request that cannot be
      sent as it is given;
    - a `share` that is longer than 100 characters, a `reference` of more than 200, or one that is not printable, and
      references that are not one for each URL;
    - a `batch` that is not 1 to 200 printable characters, and `on_batch_done` or `more_to_come` without a `batch`;
    - an `on_done` or `on_batch_done` of more than 200 characters, or that begins with the name of an installed app
      which has no such task; the name of another service's task is accepted.

    Raises TypeError for one text instead of many, an item that is not a text, and a `not_before`, `on_done`,
    `on_batch_done`, `batch`, `share`, `reference` or header of another type. Raises SitesLocked if other transactions
    block the site of a new host for ten seconds.

    The site of a new host is committed immediately, on a connection of its own if a transaction is open, and stays even
    if that transaction rolls back: no caller waits for another caller's transaction.
    """
    texts = _texts(urls)
    if priority not in PRIORITIES:
        raise ValueError(
            f"priority must be between {PRIORITIES[0]} and {PRIORITIES[-1]}, not {priority}: "
            "only what Weir itself asks for, such as a robots.txt, goes before all others."
        )
    if not 1 <= max_attempts <= MOST_ATTEMPTS:
        raise ValueError(f"max_attempts must be between 1 and {MOST_ATTEMPTS}, not {max_attempts}.")
    not_before = in_utc("not_before", not_before)
    request = given_request(
        method=method,
        body=body,
        json=json,
        form=form,
        repeatable=repeatable,
        headers=headers,
        revalidate=revalidate,
        max_redirects=max_redirects,
    )
    if len(texts) > 1 and request.has_own_key:
        raise ValueError("headers must have an Idempotency-Key only for one URL: leave it out, and each gets its own.")
    joined = wanted_batch(batch, on_batch_done, more_to_come=more_to_come)
    common: dict[str, Any] = {
        "priority": priority,
        "max_attempts": max_attempts,
        "on_done": name_of(on_done),
        "revalidate": revalidate,
        "correlation_id": correlation.current(),
        "request_headers": request.request_headers,
        "method": request.method,
        "max_redirects": request.max_redirects,
    }
    share = usable_share(share)
    references = usable_references(reference, len(texts))
    with spans.span("enqueue fetches", {"weir.fetches": len(texts)}):
        common["traceparent"] = spans.traceparent()
        wanted = _wanted(texts, references, common, request, share, dedupe=dedupe, batch=batch)
        with transaction.atomic() if joined else nullcontext():
            common["batch_id"] = joined.join() if joined else None
            fetches, new = (queue_once if dedupe else queue_all)(wanted, not_before, common, request)
    # Robust: by then the fetches are committed, and web code must not get an error. Sweep finds the fetches.
    transaction.on_commit(lambda: tell_workers(new), robust=True)
    return fetches


def _texts(urls: Iterable[str]) -> list[str]:
    """Return the texts that are asked for; raises TypeError for one text alone, and for an item that is not a text."""
    if isinstance(urls, str):
        raise TypeError("urls must be several URLs, not one str: use request_fetch for one URL.")
    texts = list(urls)
    if others := [place for place, text in enumerate(texts) if not isinstance(text, str)]:
        raise TypeError(f"Each URL must be a str, but item {others[0]} is {texts[others[0]]!r}.")
    return texts


def _wanted(
    texts: Sequence[str],
    references: Sequence[str | None],
    common: dict[str, Any],
    request: GivenRequest,
    share: str | None,
    *,
    dedupe: bool,
    batch: str | None,
) -> list[WantedFetch]:
    """Return the columns of each text's fetch, except those that all fetches of the call share."""
    allowed = allowed_by_settings()
    hosts: dict[str, str] = {}
    read = [parsed(text, allowed, hosts) for text in texts]
    sites = each_site_of(hosts.keys())
    if share:
        begin_turns(sites.values())
    key_of = partial(
        dedupe_key,
        on_done=common["on_done"],
        revalidate=common["revalidate"],
        headers=request.request_headers,
        request=request.fingerprint,
        batch=batch,
        share=share,
    )
    return [
        WantedFetch(
            url=text if url else storable(text, STORED_LENGTH),
            hop_url=url,
            site_id=sites[host].id if url else None,
            error=error,
            dedupe_key=key_of(url, reference=reference) if dedupe and url else None,
            share=share_at(sites[host], share) if url else share,
            reference=reference,
        )
        for text, reference, (url, host, error) in zip(texts, references, read, strict=True)
    ]


def share_at(site: KnownSite, share: str | None) -> str | None:
    """Return the share of a fetch at this site: where shares take turns, one without a share has the empty name."""
    return share or ("" if site.takes_turns else None)


def parsed(text: str, allowed: Allowed, hosts: dict[str, str]) -> tuple[str, str, str]:
    """Return the URL that is sent, its host, and no error; or an empty URL and host, and why no URL is sent.

    There may be millions of texts: a URL that equals its text shares that string, and equal hosts share one string.
    """
    try:
        target = parse_target(text, allowed)
    except InvalidTarget as error:
        return "", "", str(error)
    return text if text == target.url else target.url, hosts.setdefault(target.host, target.host), ""


def tell_workers(new: New) -> None:
    """Do what follows the caller's commit: step 3 of the module's head."""
    robots_files.ask(new.sites)
    backlog.activate(new.sites.values())
    call_on_done(new.failed)
