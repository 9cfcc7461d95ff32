"""What applies to every page: who may see it, what a browser may do with it, and how its live part is refreshed.

A page is a view that returns an `OpsPage`: a template and its context. The frame ops/page.html surrounds the rendered
template. A request with the header X-Weir-Live gets the template without the frame, or 304 if the browser already has
the same version. In this way browsers keep their pages up to date.

After an act, the visitor is sent to a page whose URL names the act (`after_act`). Its snapshots have keys of their own
(`done`), so the page shows the effect of the act in each web process: the first look by such a key begins after the act
has committed. After KEYED_FOR the same URL gets the snapshots of all viewers: by then, those from before the act are
gone from each process. The URL is signed, so an act has one such key, and nobody makes more of them by counting up; of
each kind of snapshot a process keeps MOST_KEPT, whatever their keys are.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.signing import BadSignature, TimestampSigner
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template import RequestContext
from django.template.loader import get_template
from django.urls import reverse

from weir.ops import actions, answers
from weir.ops.snapshots import LONGEST_LIFE_S, look
from weir.postgres import planner
from weir.workers import cursors
from weir.workers.audit.models import Entry
from weir.workers.effects.models import Effect
from weir.workers.ledger.rows import UNKNOWN
from weir.workers.mail.models import Email

PERMISSION: Final = "weir_ops.view"
FORBIDDEN: Final = "Not for this account"
# In a URL, signed: the id of the entry of the act after which the page is shown, or when such an act was refused.
DONE: Final = "done"
# No snapshot is fresh for longer than half of that. The rest is for the look itself, and for hosts whose clocks differ.
KEYED_FOR: Final = timedelta(seconds=2 * LONGEST_LIFE_S)
SAID_FOR: Final = timedelta(minutes=10)  # after an act, its page says for so long what was done
PAGES: Final = (
    ("weir_ops:overview", "Overview"),
    ("weir_ops:sites", "Sites"),
    ("weir_ops:fetches", "Fetches"),
    ("weir_ops:batches", "Batches"),
    ("weir_ops:watches", "Watches"),
    ("weir_ops:webhooks", "Webhooks"),
    ("weir_ops:unread", "Unread"),
    ("weir_ops:emails", "E-mails"),
    ("weir_ops:effects", "Effects"),
    ("weir_ops:audit", "Audit"),
)
# What may be unknown, by its name in the audit trail: its rows, and the page of one of them.
DECIDED: Final[Mapping[str, tuple[Any, str]]] = {
    "e-mail": (Email.objects, "weir_ops:email"),
    "effect": (Effect.objects, "weir_ops:effect"),
}
# Scripts, styles and pictures come from this host only, and none is within the page itself. There are no frames. Forms
# are sent to this host.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnPart:
    """What a page shows below, to one visitor and as of when it was loaded: no other visitor is given it again."""

    template: str
    shows: Mapping[str, object]
    has_frame: bool = False  # with a document of this host


@dataclass(frozen=True, kw_only=True, slots=True)
class OpsPage:
    """The content of a page."""

    template: str  # the template of the live part; ops/page.html is the frame around it
    title: str
    every_s: int = 5  # after how many seconds a browser asks for the live part again
    good_for_s: float = 0.0  # for how long all viewers get the same answer
    shows: Mapping[str, object] = field(default_factory=dict)
    own: Callable[[], OwnPart] | None = None  # called for a whole page only


View = Callable[..., OpsPage]


def page(view: View) -> Callable[..., HttpResponse]:
    """Make a page of the view. It answers only GET and HEAD, and only visitors who may see the operators' pages."""

    @wraps(view)
    def answered(request: HttpRequest, *arguments: object, **named: object) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if refused := forbidden(request):
            return guarded(refused)
        powers = actions.powers(request.user.has_perm)
        asked = partial(view, request, *arguments, **named)
        return guarded(answers.given_again(request, powers) or _answer(request, powers, asked))

    return login_not_required(answered)  # the view itself asks for a login, not the login middleware


def after_act(request: HttpRequest, path: str, entry: Entry) -> str:
    """Return the path, which may have a query, as the URL that the visitor is sent to after the act of the entry."""
    return _keyed(request, path, str(entry.pk))


def anew(request: HttpRequest, path: str) -> str:
    """Return the path as the URL of a page that is read again: somebody has changed what it showed."""
    return _keyed(request, path, f"again {time.time_ns()}")


def _keyed(request: HttpRequest, path: str, key: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{urlencode({DONE: _signer(request).sign(key)})}"


def done(request: HttpRequest) -> str:
    """Return after which act the page is shown, for the keys of its snapshots; "" if it is shown after none.

    Only an act of the visitor's own counts, or one that was refused as another was faster, and only for KEYED_FOR.
    """
    return _act(request, KEYED_FOR)


def _act(request: HttpRequest, within: timedelta) -> str:
    """Return the key that the URL names, such as the id of an entry, if this visitor got it no longer than that ago."""
    try:
        return _signer(request).unsign(request.GET.get(DONE, ""), max_age=within)
    except BadSignature:
        return ""


def _signer(request: HttpRequest) -> TimestampSigner:
    return TimestampSigner(salt=f"weir.ops.done.{request.user.get_username()}")


def _what_was_done(request: HttpRequest) -> Mapping[str, object]:
    """Return the entry of the visitor's own act, and its title, if the page is shown after one.

    Not much later, and not when somebody has acted on the same target since.
    """
    if not (number := _act(request, SAID_FOR)).isdecimal():
        return {}
    entry = look(partial(_still_newest, number)).value
    if entry is None:
        return {}
    noun = entry.target.rpartition(" ")[0]
    was_unknown = noun in DECIDED and (entry.before or {}).get("state") == UNKNOWN
    next_unknown = look(partial(_oldest_unknown, noun)).value if was_unknown else None
    said = {"was_unknown": was_unknown, "next_unknown": next_unknown, "noun": noun}
    return {"entry": entry, "act": actions.TITLES.get(entry.action, entry.action), **said}


def _still_newest(number: str) -> Entry | None:
    """Return the entry; None if there is a newer one about the same target, which may have undone the act."""
    entry = Entry.objects.filter(pk=number).first()
    return None if entry is None or Entry.objects.filter(target=entry.target, pk__gt=entry.pk).exists() else entry


def _oldest_unknown(noun: str) -> str:
    """Return the path of the e-mail, or effect, that has been unknown for longest, which is next to be decided."""
    rows, page = DECIDED[noun]
    planner.by_indexes()
    found: int | None = rows.unknown().values_list("pk", flat=True).first()
    return reverse(page, args=[found]) if found else ""


def guarded(response: HttpResponse) -> HttpResponse:
    """Add headers that restrict what a browser runs, loads and keeps; headers that the response has already, stay."""
    for name, value in (
        ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
        ("Referrer-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ):
        response.headers.setdefault(name, value)
    return response


def forbidden(request: HttpRequest) -> HttpResponse | None:
    """Return the response to a visitor who lacks a login or the permission; None if the visitor may see the page."""
    if not request.user.is_authenticated:
        if answers.LIVE in request.headers:
            return HttpResponse("You are signed out.", status=401, content_type="text/plain")
        return redirect_to_login(request.get_full_path())
    if request.user.has_perm(PERMISSION):
        return None
    return HttpResponse(rendered("weir/ops/forbidden.html", {"title": FORBIDDEN}, request), status=403)


def rendered(template: str, shows: Mapping[str, object], request: HttpRequest) -> str:
    """Return the rendered template, with numbers in the form that browsers and commands read.

    A project's language may have a decimal comma, and its settings a thousands separator. Within a drawing or an id, a
    number that is written so would be read as another one, or as none.
    """
    made: Any = get_template(template)
    text: str = made.template.render(RequestContext(request, dict(shows), use_l10n=False))
    return text


def _answer(request: HttpRequest, powers: answers.Powers, view: Callable[[], OpsPage]) -> HttpResponse:
    try:
        shown = view()
    except cursors.BadCursor as error:
        return _refused(request, 400, "This link does not work", str(error))
    except Http404 as error:
        return _refused(request, 404, "Not found", str(error))
    kept_back: dict[str, dict[str, None]] = {}  # filled by the tags of weir_acts
    live = rendered(shown.template, {**shown.shows, "kept_back": kept_back}, request)
    if kept_back:
        live += rendered("weir/ops/kept_back.html", {"kept_back": kept_back}, request)
    etag = f'"{hashlib.sha256(live.encode()).hexdigest()[:32]}"'
    if answers.LIVE in request.headers:
        answer = answers.BoundedAnswer(live.encode(), etag, time.monotonic() + shown.good_for_s)
        answers.remember(request, powers, answer)
        return answer.to(request.headers.get("If-None-Match", ""))
    own = shown.own() if shown.own else None
    whole = {"title": shown.title, "live": live, "every_s": shown.every_s, "etag": etag}
    whole |= {**frame(request), **_what_was_done(request)}
    whole["own"] = rendered(own.template, own.shows, request) if own else ""
    headers = (
        {"Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}; frame-src 'self'"} if own and own.has_frame else {}
    )
    return HttpResponse(rendered("weir/ops/page.html", whole, request), headers=headers)


def _refused(request: HttpRequest, status: int, title: str, why: str) -> HttpResponse:
    shows = {"title": title, "why": why, **frame(request)}
    return HttpResponse(rendered("weir/ops/refused.html", shows, request), status=status)


def frame(request: HttpRequest) -> dict[str, object]:
    """Return the frame's context: all pages, the page that contains this path, and whether the path is below it."""
    pages = [(reverse(name), label) for name, label in PAGES]
    here = max((path for path, _ in pages if request.path.startswith(path)), key=len, default="")
    return {"pages": pages, "here": here, "is_part": request.path != here}
