"""Search: from a number, a URL, a site's name, a recipient, a key or a Message-ID to a page.

An index serves each question, and each has the time of a page's statement. A single hit leads straight to its page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse

from weir.ops import pages
from weir.ops.filters import Text
from weir.ops.snapshots import look
from weir.ops.views.links import Link, list_url
from weir.postgres import planner
from weir.ratelimit.models import Site
from weir.ratelimit.site_names import InvalidSiteName, canonical
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.reports import fetch_filters, site_list
from weir.workers.fetches.reports.fetch_list import LARGEST_ID, ListedFetch, fetch_list
from weir.workers.mail.models import Email
from weir.workers.mail.reports import searching

FIELD: Final = Text(name="q", label="Search", longest=fetch_filters.LONGEST_TEXT)
MOST: Final = 10  # hits of each kind


@dataclass(frozen=True, kw_only=True, slots=True)
class _Hits:
    """Up to MOST hits of a kind, and the list with all of them if there are more."""

    hits: Sequence[Link] = ()
    more: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """What was found of a kind, or why it was not looked up."""

    title: str
    found: _Hits
    failure: str


@login_not_required  # `forbidden` asks for a login
def show(request: HttpRequest) -> HttpResponse:
    """Lead to the only hit, or show the hits of each kind, or what may be searched for."""
    if request.method not in {"GET", "HEAD"}:
        return HttpResponseNotAllowed(["GET", "HEAD"])
    return pages.guarded(pages.forbidden(request) or _answer(request, FIELD.read(request.GET.get(FIELD.name))))


def _answer(request: HttpRequest, text: str) -> HttpResponse:
    parts = _parts(text) if text else []
    urls = {hit.url for part in parts for hit in part.found.hits}
    if len(urls) == 1 and not any(part.failure for part in parts):
        return HttpResponseRedirect(urls.pop())
    shown = [part for part in parts if part.found.hits or part.failure]
    shows = {"title": "Search", "searched": text, "parts": shown, **pages.frame(request), "here": ""}
    return HttpResponse(pages.rendered("weir/ops/search.html", shows, request))


def _parts(text: str) -> list[_Part]:
    if "/" not in text:
        asked = {"By number": _of_number, "Sites": _sites, "E-mails": _emails}
        return [_part(title, ask, text) for title, ask in asked.items()]
    fetches = _part("Fetches", _fetches, text)
    if fetches.found.hits:
        return [fetches]
    return [fetches, _part("Sites", _site_of_url, text), _part("E-mails", _emails, text)]


def _part(title: str, ask: Callable[[str], _Hits], text: str) -> _Part:
    looked = look(partial(ask, text))
    return _Part(title=title, found=looked.value or _Hits(), failure=looked.failure)


def _of_number(text: str) -> _Hits:
    """Return the fetch and the e-mail with this id."""
    digits = text.removeprefix("#")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LARGEST_ID))
    if not is_number or int(digits) > LARGEST_ID:
        return _Hits()
    found = [*map(_fetch, Fetch.objects.filter(pk=digits)), *map(_email, Email.objects.filter(pk=digits))]
    return _Hits(hits=found)


def _fetches(text: str) -> _Hits:
    """Return the fetches of this URL; without any, those whose URL begins with it. The scheme may be left out."""
    urls = [text] if "://" in text else [f"https://{text}", f"http://{text}"]
    for end in ("", "*"):
        for url in urls:
            filters = fetch_filters.Filters(url=url, is_exact=not end)
            if found := fetch_list(filters, most=MOST + 1).fetches:
                more = list_url("fetches", url=url + end) if len(found) > MOST else ""
                return _Hits(hits=[_fetch(fetch) for fetch in found[:MOST]], more=more)
    return _Hits()


def _sites(text: str) -> _Hits:
    """Return the site with this name; without any, those whose names begin with it, or end with it after a dot."""
    if site := _site(text):
        return site
    if len(text) > site_list.LONGEST_SEARCH:
        return _Hits()
    filters = site_list.SiteFilters(search=text.lower())
    names = [site.row.name for site in site_list.all_sites(filters, MOST + 1, counted=site_list.Backlogs())]
    more = list_url("sites", search=text, sort="name") if len(names) > MOST else ""
    return _Hits(hits=[_site_link(name) for name in names[:MOST]], more=more)


def _site_of_url(text: str) -> _Hits:
    try:
        host = urlsplit(text if "://" in text else f"//{text}").hostname
    except ValueError:  # such as an unfinished IPv6 address
        host = None
    return _site(host or "") or _Hits()


def _site(name: str) -> _Hits | None:
    try:
        found = Site.objects.filter(name=canonical(name)).values_list("name", flat=True).first()
    except InvalidSiteName:
        found = None
    return _Hits(hits=[_site_link(found)]) if found else None


def _emails(text: str) -> _Hits:
    """Return the e-mails to recipients whose address begins with the text, and those with this key or Message-ID."""
    planner.by_indexes()
    found = list(searching.matching(Email.objects.order_by("pk"), text, most=MOST + 1)[: MOST + 1])
    more = list_url("emails", state="", to=text) if len(found) > MOST else ""
    return _Hits(hits=[_email(email) for email in found[:MOST]], more=more)


def _fetch(fetch: Fetch | ListedFetch) -> Link:
    words = f"Fetch {fetch.id}, {fetch.state}: {fetch.url}"
    return Link(url=reverse("weir_ops:fetch", args=[fetch.id]), words=words)


def _email(email: Email) -> Link:
    words = f"E-mail {email.pk}, {email.state}: {email.kind} {email.key}, to {email.recipient}"
    return Link(url=reverse("weir_ops:email", args=[email.pk]), words=words)


def _site_link(name: str) -> Link:
    return Link(url=reverse("weir_ops:site", args=[name]), words=name)
