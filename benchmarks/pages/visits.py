"""The pages that are asked for, with the filters that cost most."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.utils import timezone

from benchmarks.pages.size import Size
from weir.workers import cursors
from weir.workers.fetches.models import Batch, Fetch
from weir.workers.mail.models import Email

FIRST_SITE = "site-1.bench"
FIRST_BATCH = "import-1"
NOBODY = "nothing-has-this"


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """A page, and whether tabs keep it up to date."""

    name: str
    path: str
    is_live: bool = True


def visits(size: Size) -> Iterator[Visit]:
    """Yield all visits."""
    yield from _pages("overview", "/", [{}, {"over": "1h"}, {"over": "7d"}])
    yield from _pages("sites", "/sites/", _of_sites(size))
    yield from _pages("site", f"/sites/{FIRST_SITE}/", [{}, {"over": "7d"}, {"add": "500", "rate": "5/s"}])
    yield from _pages("site_of_few", "/sites/site-77.bench/", [{}])
    yield from _pages("fetches", "/fetches/", _of_fetches(size))
    for state in ("queued", "running", "done", "failed"):
        yield Visit(name=f"fetch_{state}", path=f"/fetches/{_middle(Fetch.objects.filter(state=state))}/")
    yield from _pages("batches", "/batches/", [{}, {"state": "ended"}, {"name": NOBODY}, {"name": FIRST_BATCH}])
    for state in ("running", "ended"):
        batch = _middle(Batch.objects.filter(ended_at__isnull=state == "running"))
        yield Visit(name=f"batch_{state}", path=f"/batches/{batch}/")
    yield Visit(name="unread", path="/unread/")
    yield from _pages("emails", "/emails/", _of_emails(size))
    for state in ("pending", "unknown", "sent"):
        yield Visit(name=f"email_{state}", path=f"/emails/{_middle(Email.objects.filter(state=state))}/")
    of_sites = ("site-", f"http://{FIRST_SITE}/", f"{FIRST_SITE}/")
    for text in (NOBODY, *of_sites, f"/{NOBODY}", "customer.", "import-"):
        yield Visit(name=f"search?q={text}", path=f"/search/?{urlencode({'q': text})}", is_live=False)
    yield Visit(name="metrics", path="/metrics", is_live=False)
    yield Visit(name="sign_in", path="/sign-in/", is_live=False)


def _pages(name: str, path: str, queries: list[dict[str, str]]) -> Iterator[Visit]:
    """Yield the page once for each query, whose values are a part of the name."""
    for query in queries:
        shown = "_".join(f"{key}={'deep' if key == 'after' else value}" for key, value in query.items())
        yield Visit(name=f"{name}?{shown}" if query else name, path=f"{path}?{urlencode(query)}" if query else path)


def _of_sites(size: Size) -> list[dict[str, str]]:
    deep = cursors.encode(["name", f"site-{size.sites // 2}.bench", 0, 0, size.sites // 2])
    deep_in_backlog = cursors.encode(["ids", "", 0, 9, size.sites // 2])
    return [
        {},
        *({"sort": sort} for sort in ("name", "refusals")),
        *({"state": state} for state in ("paused", "unreachable", "idle")),
        {"state": "paused", "fetches": "to come"},
        {"state": "idle", "sort": "name"},
        *({"search": search, "sort": sort} for search in (NOBODY, f".{NOBODY}") for sort in ("name", "backlog")),
        {"search": NOBODY, "sort": "refusals"},
        {"search": ".bench", "sort": "name"},
        {"sort": "name", "after": deep},
        {"sort": "backlog", "after": deep_in_backlog},
    ]


def _of_fetches(size: Size) -> list[dict[str, str]]:
    middle = size.ended // 2
    ended_at = Fetch.objects.values_list("finished_at", flat=True).get(pk=middle)
    created_at = Fetch.objects.filter(state="queued").order_by("pk").values_list("created_at", flat=True)[0]
    old = _ago(timedelta(days=20))
    return [
        {},
        {"after": cursors.encode(["newest", middle])},
        *({"state": state} for state in ("queued", "reserved", "running", "done", "failed", "cancelled")),
        {"state": "done", "after": _place("ended", middle, ended_at)},
        {"state": "failed", "after": _place("not done", middle, ended_at)},
        {"state": "queued", "after": _place("queued", size.ended + size.queued // 2, created_at)},
        {"url": f"/{NOBODY}"},
        {"url": f"/{NOBODY}", "site": FIRST_SITE},
        {"site": FIRST_SITE},
        {"site": FIRST_SITE, "state": "queued"},
        {"site": FIRST_SITE, "state": "failed", "error": NOBODY},
        {"error": NOBODY},
        {"error": "answered 503", "state": "failed"},
        {"error": NOBODY, "state": "failed"},
        {"error": NOBODY, "state": "queued"},
        {"status": "599"},
        {"status": "404", "state": "done"},
        {"url": f"http://{NOBODY}/"},
        {"url": "http://site-1.*"},
        {"url": "http://site-*", "state": "cancelled"},
        {"url": "http://*", "error": NOBODY},
        {"since": "2h"},
        {"since": "2h", "error": NOBODY},
        {"until": old, "state": "failed"},
        {"until": old, "status": "599"},
        {"since": "30d", "site": FIRST_SITE, "status": "599"},
    ]


def _of_emails(size: Size) -> list[dict[str, str]]:
    states = ("", "pending", "sending", "sent", "failed", "bounced", "cancelled", "suppressed", "expired")
    kinds = ({"kind": "order.shipped", "state": state} for state in ("", "sent", "unknown", "failed"))
    return [
        {},
        *({"state": state} for state in states),
        *kinds,
        *({"state": state, "within": "1h"} for state in ("sent", "failed")),
        {"state": "", "to": f"{NOBODY}@"},
        {"state": "", "to": "customer."},
        {"state": "unknown", "to": "customer."},
        {"state": "unknown", "to": f"{NOBODY}@"},
        {"state": "suppressed", "to": "customer.", "kind": "order.shipped"},
        {"state": "", "after": cursors.encode([size.emails // 2])},
        {"state": "sent", "kind": "order.shipped", "after": cursors.encode([size.emails // 2])},
    ]


def _place(way: str, id_: int, moment: datetime | None) -> str:
    return cursors.encode([way, id_, moment.isoformat() if moment else ""])


def _ago(age: timedelta) -> str:
    return (timezone.now() - age).isoformat()


def _middle(rows: QuerySet[Any]) -> int:
    """Return the id of one of the first thousand."""
    ids: list[int] = list(rows.order_by("-pk").values_list("pk", flat=True)[:1_000])
    return ids[len(ids) // 2]
