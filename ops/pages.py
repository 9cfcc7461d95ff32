"""What holds for each page: who may see it, what a browser may do with it, and how a part of it is asked for again.

A page is a view that returns a `Page`: a template, and what it shows, inside the frame ops/page.html. A request with
the header X-Weir-Live gets it without the frame, or 304 where it is the same as what the browser has: so pages are kept
up to date.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Final

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.loader import render_to_string

PERMISSION: Final = "ops.view"
LIVE: Final = "X-Weir-Live"  # the header of a request for what changes
PAGES: Final = (("ops:overview", "Overview"),)
# Scripts, styles and pictures of this host only, none of them in the page itself; no frames, and forms to this host.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What a view shows."""

    template: str  # of what changes; its frame is ops/page.html
    title: str
    every_s: int = 5  # between two looks
    shows: Mapping[str, object] = field(default_factory=dict)
    live: str = ""  # what changes, where it was rendered before


View = Callable[..., Page | HttpResponse]


def page(view: View) -> Callable[..., HttpResponse]:
    """Have the view answer GET of those who may see the operators' pages, and nobody else."""

    @wraps(view)
    def answered(request: HttpRequest, *arguments: object, **named: object) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            return HttpResponseNotAllowed(["GET", "HEAD"])
        return guarded(_allowed(request) or _answer(request, view(request, *arguments, **named)))

    return answered


def guarded(response: HttpResponse) -> HttpResponse:
    """Tell the browser to run, load and keep nothing that is not meant; what the response says already, wins."""
    for name, value in (
        ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
        ("Referrer-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ):
        response.headers.setdefault(name, value)
    return response


def _allowed(request: HttpRequest) -> HttpResponse | None:
    """Return what tells the visitor what is missing; None where nothing is."""
    if not request.user.is_authenticated:
        if LIVE in request.headers:
            return HttpResponse("You are signed out.", status=401, content_type="text/plain")
        return redirect_to_login(request.get_full_path())
    if request.user.has_perm(PERMISSION):
        return None
    refusal = render_to_string("ops/forbidden.html", {"title": "Not for this account"}, request)
    return HttpResponse(refusal, status=403)


def _answer(request: HttpRequest, shown: Page | HttpResponse) -> HttpResponse:
    if isinstance(shown, HttpResponse):
        return shown
    live = shown.live or render_to_string(shown.template, dict(shown.shows), request)
    etag = f'"{hashlib.sha256(live.encode()).hexdigest()[:32]}"'
    if LIVE in request.headers:
        if request.headers.get("If-None-Match") == etag:
            return HttpResponse(status=304, headers={"ETag": etag})
        return HttpResponse(live, headers={"ETag": etag})
    here = request.resolver_match.view_name if request.resolver_match else ""
    frame = {"title": shown.title, "live": live, "every_s": shown.every_s, "etag": etag, "pages": PAGES, "here": here}
    return HttpResponse(render_to_string("ops/page.html", frame, request))
