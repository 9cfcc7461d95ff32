"""Search: from a number, a URL or a part of one, the name of a site or a batch, a recipient, a key or a Message-ID.

An index serves each question, and each has the time of a page's statement. No index serves a part of a URL: so many
fetches of the site that the text names, or of all sites, are looked at as for a page of the list, and the answer says
so. A single hit leads straight to its page, unless there may be others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from weir.workers.effects import listing
from weir.workers.effects.models import Effect
from weir.workers.fetches.models import ACTIVE, FINAL, Batch, Fetch
from weir.workers.fetches.reports import batches, fetch_filters, site_list
from weir.workers.fetches.reports.fetch_filters import UrlMatch
from weir.workers.fetches.reports.fetch_list import LARGEST_ID, ListedFetch, fetch_list
from weir.workers.mail.models import Email
from weir.workers.mail.reports import searching

FIELD: Final = Text(name="q", label="Search", longest=fetch_filters.LONGEST_TEXT)
MOST: Final = 10  # hits of each kind
LEAST_PART: Final = 3  # characters of a part of a URL; nearly all URLs contain each shorter one
_LOOKS: Final = {
    "fetches that have not ended": frozenset(state.value for state in ACTIVE),
    "fetches that ended last": frozenset(state.value for state in FINAL),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Hits:
    """Up to MOST hits of a kind, the list with all of them if there are more, and what was not looked at."""

    hits: Sequence[Link] = ()
    more: str = ""
    note: str = ""


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
    parts = _each_once(_parts(text)) if text else []
    urls = {hit.url for part in parts for hit in part.found.hits}
    if len(urls) == 1 and not any(part.failure or part.found.note for part in parts):
        return HttpResponseRedirect(urls.pop())
    shown = [part for part in parts if part.found.hits or part.found.note or part.failure]
    shows = {"title": "Search", "searched": text, "parts": shown, **pages.frame(request), "here": ""}
    return HttpResponse(pages.rendered("weir/ops/search.html", shows, request))


def _parts(text: str) -> list[_Part]:
    if "/" not in text:
        asked = {"By number": _of_number, "Sites": _sites, "Batches": _batches, **_BY_KEY}
        parts = [_part(title, ask, text) for title, ask in asked.items()]
        is_found = any(part.found.hits or part.failure for part in parts)
        return parts if is_found or len(text) < LEAST_PART else [*parts, _part("Fetches", _fetches_with, text)]
    fetches = _part("Fetches", _fetches, text)
    if fetches.found.hits:
        return [fetches]
    having = _part("Fetches with this in their URL", _fetches_with, text)
    if having.found.hits:
        return [fetches, having]
    others = {"Sites": _site_of_url, "Batches": _batches, **_BY_KEY}
    return [fetches, having, *(_part(title, ask, text) for title, ask in others.items())]


def _each_once(parts: Sequence[_Part]) -> list[_Part]:
    """Return the parts, without hits that an earlier part has: an e-mail's key may be its number."""
    seen: set[str] = set()
    found = []
    for part in parts:
        hits = [hit for hit in part.found.hits if hit.url not in seen]
        seen.update(hit.url for hit in hits)
        found.append(replace(part, found=replace(part.found, hits=hits)))
    return found


def _part(title: str, ask: Callable[[str], _Hits], text: str) -> _Part:
    looked = look(partial(ask, text))
    return _Part(title=title, found=looked.value or _Hits(), failure=looked.failure)


def _of_number(text: str) -> _Hits:
    """Return the fetch, the e-mail and the effect with this id."""
    digits = text.removeprefix("#")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LARGEST_ID))
    if not is_number or int(digits) > LARGEST_ID:
        return _Hits()
    fetches, emails = Fetch.objects.filter(pk=digits), Email.objects.filter(pk=digits)
    effects = Effect.objects.filter(pk=digits)
    return _Hits(hits=[*map(_fetch, fetches), *map(_email, emails), *map(_effect, effects)])


def _fetches(text: str) -> _Hits:
    """Return the fetches of this URL; without any, those whose URL begins with it. The scheme may be left out."""
    urls = [text] if "://" in text else [f"https://{text}", f"http://{text}"]
    for end in ("", "*"):
        for url in urls:
            filters = fetch_filters.Filters(url=url, url_match=UrlMatch.BEGINNING if end else UrlMatch.EXACT)
            if found := fetch_list(filters, most=MOST + 1).fetches:
                more = list_url("fetches", url=url + end) if len(found) > MOST else ""
                return _Hits(hits=[_fetch(fetch) for fetch in found[:MOST]], more=more)
    return _Hits()


def _fetches_with(text: str) -> _Hits:
    """Return fetches whose URL contains the text: at the site that it begins with, those that contain the rest.

    Those that have not ended are looked at, and then those that ended last, each as far as for a page of the list.
    """
    host, slash, path = text.partition("://")[2 if "://" in text else 0].partition("/")
    site = Site.objects.filter(name=_canonical(host)).first() if path else None
    url = slash + path if site else text
    part = partial(fetch_filters.Filters, site=site.pk if site else None, url=url, url_match=UrlMatch.PART)
    looks = {which: fetch_list(part(states=states), most=MOST + 1) for which, states in _LOOKS.items()}
    found = [fetch for looked in looks.values() for fetch in looked.fetches]
    short = [f"{looked.looked_at:,} {which}" for which, looked in looks.items() if looked.looked_at]
    more = list_url("fetches", site=site.name if site else "", url=f"*{url}") if short or len(found) > MOST else ""
    note = f"Of {site.name if site else 'all sites'}, {' and '.join(short)} were looked at." if short else ""
    return _Hits(hits=[_fetch(fetch) for fetch in found[:MOST]], more=more, note=note)


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
    found = Site.objects.filter(name=_canonical(name)).values_list("name", flat=True).first()
    return _Hits(hits=[_site_link(found)]) if found else None


def _canonical(name: str) -> str:
    """Return the one spelling of the site's name; "", which no site has, if no site can have it."""
    try:
        return canonical(name)
    except InvalidSiteName:
        return ""


def _batches(text: str) -> _Hits:
    """Return the batch of this name, or those whose names begin with it. What programs ask for begins with `api:`."""
    planner.by_indexes()
    return _Hits(hits=[_batch(batch) for batch in batches.named(text, MOST)])


def _emails(text: str) -> _Hits:
    """Return the e-mails to recipients whose address begins with the text, and those with this key or Message-ID."""
    planner.by_indexes()
    found = list(searching.matching(Email.objects.order_by("pk"), text, most=MOST + 1)[: MOST + 1])
    more = list_url("emails", state="", to=text) if len(found) > MOST else ""
    return _Hits(hits=[_email(email) for email in found[:MOST]], more=more)


def _effects(text: str) -> _Hits:
    """Return the effects with this key, one of each kind at most."""
    planner.by_indexes()
    ids = listing.ids_of_key(text)
    more = list_url("effects", state="", key=text) if len(ids) > MOST else ""
    return _Hits(
        hits=[_effect(effect) for effect in Effect.objects.filter(pk__in=ids[:MOST]).order_by("pk")], more=more
    )


def _fetch(fetch: Fetch | ListedFetch) -> Link:
    words = f"Fetch {fetch.id}, {fetch.state}: {fetch.url}"
    return Link(url=reverse("weir_ops:fetch", args=[fetch.id]), words=words)


def _email(email: Email) -> Link:
    words = f"E-mail {email.pk}, {email.state}: {email.kind} {email.key}, to {email.recipient}"
    return Link(url=reverse("weir_ops:email", args=[email.pk]), words=words)


def _effect(effect: Effect) -> Link:
    words = f"Effect {effect.pk}, {effect.state}: {effect.kind} {effect.key}"
    return Link(url=reverse("weir_ops:effect", args=[effect.pk]), words=words)


def _batch(batch: Batch) -> Link:
    return Link(url=reverse("weir_ops:batch", args=[batch.pk]), words=f"Batch {batch.pk}: {batch.name}")


def _site_link(name: str) -> Link:
    return Link(url=reverse("weir_ops:site", args=[name]), words=name)


_BY_KEY: Final[Mapping[str, Callable[[str], _Hits]]] = {"E-mails": _emails, "Effects": _effects}
