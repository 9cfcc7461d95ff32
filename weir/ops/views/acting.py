"""Pages with a form through which operators change something. weir.ops.actions carries out the changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from django.db import OperationalError
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse

from weir.ops import actions, pages
from weir.ops.deeds import Deed
from weir.ops.filters import Chosen
from weir.ops.snapshots import look
from weir.ops.views.fetches import FILTERS
from weir.postgres import bounded
from weir.ratelimit import site_names
from weir.ratelimit.models import Site
from weir.ratelimit.site_settings import SiteBusy
from weir.ratelimit.sites import SitesLocked, UnknownSite, unknown_site
from weir.workers.audit import acting, listing
from weir.workers.audit.acting import Actor
from weir.workers.audit.models import Door
from weir.workers.effects import actions as actions_of_effects
from weir.workers.effects.kinds import UnknownEffectKind
from weir.workers.effects.models import Effect
from weir.workers.events.log import NoEvents
from weir.workers.fetches.actions import fetches as actions_of_fetches
from weir.workers.fetches.actions import sites
from weir.workers.fetches.batches.counts import UnknownBatch
from weir.workers.mail.actions import emails, kinds
from weir.workers.mail.kinds import UnknownKind
from weir.workers.mail.models import Email
from weir.workers.watches.listing import UnknownWatch
from weir.workers.webhooks.endpoints import UnknownEndpoint

REFUSALS: Final = (
    acting.ActRefused,
    ValueError,
    UnknownBatch,
    UnknownSite,
    SiteBusy,
    UnknownKind,
    UnknownEffectKind,
    UnknownWatch,
    UnknownEndpoint,
    NoEvents,
    SitesLocked,
    Email.DoesNotExist,
    Effect.DoesNotExist,
)
LONGEST_COUNT_S: Final = 1.0
# The version that the actor has seen: in a link to a form that of the page, in the form that of the form.
SEEN: Final = "seen"

Target = Any  # what a deed changes: a host, an id, a kind of e-mail, or the filters of a list
View = Callable[[HttpRequest, Target, str], HttpResponse]


def _acts(
    deeds: Mapping[str, Deed],
    back: Callable[[Target], str],
    initial: Callable[[str, Target], Mapping[str, Any]] = lambda _what, _target: {},
    facts: Callable[[Target], Mapping[str, Any] | None] = lambda _target: None,
) -> View:
    """Return a view that shows the form of one of the deeds, with these initial values, and does the deed.

    `facts` are what the page shows of the target, beside the form.
    """

    def view(request: HttpRequest, target: Target, what: str) -> HttpResponse:
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        if (deed := deeds.get(what)) is None:
            raise Http404(f"There is no {what!r}: {', '.join(deeds)}.")
        if isinstance(target, str) and "\0" in target:  # PostgreSQL stores none
            raise Http404("Nothing has such a name.")
        visit = _Visit(
            request=request, deed=deed, target=target, back=back(target), initial=partial(initial, what), facts=facts
        )
        return pages.guarded(pages.forbidden(request) or visit.answer())

    return view


@dataclass(frozen=True, kw_only=True, slots=True)
class _Visit:
    """A visit to the form of a deed: the form is opened, or it is sent."""

    request: HttpRequest
    deed: Deed
    target: Target
    back: str  # the path of the page to which the visitor returns
    initial: Callable[[Target], Mapping[str, Any]]
    facts: Callable[[Target], Mapping[str, Any] | None]

    def answer(self) -> HttpResponse:
        actor = acting.of_request(self.request, Door.PAGE)
        form = self.deed.form(self.request.POST if self.request.method == "POST" else None)
        try:
            self.deed.allow(actor)
            return self._sent(form, actor) if form.is_bound else self._opened(form)
        except (acting.NotPermitted, acting.ReadOnly) as error:
            return self._page(None, 403, str(error))
        except acting.Changed as error:  # without a form: the page has to be looked at first
            return self._page(None, 409, str(error))
        except REFUSALS as error:
            return self._page(form, 409, str(error))

    def _opened(self, form: Form) -> HttpResponse:
        form.initial = {**self.initial(self.target)}
        if SEEN in form.fields:
            acting.refuse_changed("It", form.initial[SEEN], self.request.GET.get(SEEN))
        return self._page(form, 200)

    def _sent(self, form: Form, actor: Actor) -> HttpResponse:
        if not form.is_valid():
            return self._page(form, 400)
        self.deed.do(actor, self.target, form.cleaned_data)
        if not actor.entries:
            return self._page(form, 409, self.deed.unchanged)
        return HttpResponseRedirect(pages.after_act(self.request, self.back, actor.entries[-1]))

    def _page(self, form: Form | None, status: int, refusal: str = "") -> HttpResponse:
        reasons = look(partial(listing.last_reasons, self.deed.action.name)).value if form else None
        back = pages.anew(self.request, self.back) if status == HTTPStatus.CONFLICT else self.back
        shows = {"title": self.deed.title, "deed": self.deed, "target": self.target, "back": back}
        shows["facts"] = look(partial(self.facts, self.target)).value if form else None
        shows |= {"form": form, "reasons": reasons or [], "refusal": refusal, **pages.frame(self.request)}
        return HttpResponse(pages.rendered("weir/ops/act.html", shows, self.request), status=status)


def _of_site(what: str, host: str) -> Mapping[str, Any]:
    """Return the site's version and, for `set`, its settings."""
    if (site := Site.objects.filter(name=site_names.canonical(host)).first()) is None:
        raise unknown_site(host)
    return {**(sites.settings_of(site) if what == "set" else {}), SEEN: sites.version_of(site)}


def _of_email(what: str, email_id: int) -> Mapping[str, Any]:
    """Return the e-mail's version and its recipient, where that is what is acted on."""
    if (email := Email.objects.filter(pk=email_id).first()) is None:
        raise Email.DoesNotExist(f"There is no e-mail {email_id}.")
    address = {"address": actions.recipient_of(email_id)} if what in actions.RECIPIENT else {}
    return {**address, SEEN: emails.version_of(email)}


def _facts_of_email(email_id: int) -> Mapping[str, Any] | None:
    """Return what a person decides by who decides about an e-mail."""
    email = Email.objects.filter(pk=email_id).first()
    if email is None:
        return None
    template = "weir/ops/email_facts.html"
    return {"template": template, "email": email, "resolutions": list(email.resolutions.order_by("pk"))}


def _of_effect(_what: str, effect_id: int) -> Mapping[str, Any]:
    if (effect := Effect.objects.filter(pk=effect_id).first()) is None:
        raise Effect.DoesNotExist(f"There is no effect {effect_id}.")
    return {SEEN: actions_of_effects.version_of(effect)}


def _facts_of_effect(effect_id: int) -> Mapping[str, Any] | None:
    if (effect := Effect.objects.filter(pk=effect_id).first()) is None:
        return None
    template = "weir/ops/effect_facts.html"
    return {"template": template, "effect": effect, "resolutions": list(effect.resolutions.order_by("pk"))}


def _of_kind(_what: str, kind: str) -> Mapping[str, Any]:
    return {SEEN: kinds.current_version(kind)}


def _of_effect_kind(_what: str, kind: str) -> Mapping[str, Any]:
    return {SEEN: actions_of_effects.current_version(kind)}


def _to_page(name: str) -> Callable[[Target], str]:
    return lambda target: reverse(name, args=[target])


def _to_list(name: str) -> Callable[[Target], str]:
    return lambda _target: reverse(name)


def _count_failed(_what: str, chosen: Chosen) -> Mapping[str, Any]:
    """Return how many fetches a retry would queue again now, as an initial value of the form."""
    try:
        with bounded.reading(LONGEST_COUNT_S):
            return {"expected": actions_of_fetches.would_retry(actions.failed_fetches(chosen))}
    except OperationalError as error:
        raise ValueError(
            "To count them takes too long for a page. Say more of what is meant, such as a site; or count them in a "
            "shell: python manage.py fetches retry --dry-run."
        ) from error


def fetches(request: HttpRequest, what: str) -> HttpResponse:
    """Show the form for all fetches that meet the filters of the list, and carry out its deed when it is sent."""
    return _fetches(request, FILTERS.read(request.GET), what)


def webhooks(request: HttpRequest, what: str) -> HttpResponse:
    """Show the form of an endpoint that is to be made, and make it when the form is sent."""
    return _webhooks(request, "webhooks", what)


def unread(request: HttpRequest, what: str) -> HttpResponse:
    """Show the form for a user's unread number, and carry out its deed when it is sent."""
    return _unread(request, "a user's unread number", what)


site = _acts(actions.OF["site"], _to_page("weir_ops:site"), _of_site)
fetch = _acts(actions.OF["fetch"], _to_page("weir_ops:fetch"))
batch = _acts(actions.OF["batch"], _to_page("weir_ops:batch"))
watch = _acts(actions.OF["watch"], _to_list("weir_ops:watches"))
endpoint = _acts(actions.OF["endpoint"], _to_list("weir_ops:webhooks"))
_webhooks = _acts(actions.OF["webhooks"], _to_list("weir_ops:webhooks"))
email = _acts(actions.OF["email"], _to_page("weir_ops:email"), _of_email, _facts_of_email)
effect = _acts(actions.OF["effect"], _to_page("weir_ops:effect"), _of_effect, _facts_of_effect)
effect_kind = _acts(actions.OF["effect-kind"], _to_list("weir_ops:effects"), _of_effect_kind)
kind = _acts(actions.OF["kind"], _to_list("weir_ops:emails"), _of_kind)
_fetches = _acts(actions.OF["fetches"], lambda chosen: f"{reverse('weir_ops:fetches')}?{chosen.query()}", _count_failed)
_unread = _acts(actions.OF["unread"], _to_list("weir_ops:unread"))
