"""Operations on effects: list them, say why they wait, resolve unknown ones, and pause their kinds."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from weir.api.access import actor
from weir.api.http import etags
from weir.api.http.problems import (
    CHANGED,
    IN_PROGRESS,
    INVALID,
    NO_REASON,
    NOT_FOUND,
    NOT_IN_THIS_STATE,
    OTHER_REQUEST,
    READ_ONLY,
    Problem,
)
from weir.api.idempotency import once
from weir.api.operations.looking import looked
from weir.api.operations.operation import IDEMPOTENCY_KEY, IF_MATCH, operation, refused
from weir.api.schemas import effects as schemas
from weir.api.schemas.values import Id
from weir.api.tokens import scopes
from weir.postgres import planner
from weir.workers.cursors import BadCursor
from weir.workers.effects import actions, listing, reports
from weir.workers.effects.management import effect_text
from weir.workers.effects.models import Act, Effect
from weir.workers.effects.resolving import CannotBeResolved
from weir.workers.ledger.paging import RowsPage

router = Router(tags=["effects"])
KIND_CHANGES: Final = (READ_ONLY, NOT_FOUND, NO_REASON, CHANGED)


@operation(router, "GET", "/effects", scope=scopes.SEE_EFFECTS, answers={200: schemas.EffectPage})
def list_effects(request: HttpRequest, query: Query[schemas.EffectQuery]) -> schemas.EffectPage:
    """List effects: a user's, and those that are done, or in any state, the newest first; else the oldest first."""
    wanted = listing.EffectFilters(state=query.state, kind=query.kind, key=query.key, user=query.user)

    def found() -> RowsPage[Effect]:
        planner.by_indexes()
        return listing.page(wanted, query.after)

    with refused(INVALID, BadCursor):
        page = looked(found)
    return schemas.EffectPage(
        effects=[schemas.Effect(**_values(effect)) for effect in page.rows],
        next=page.next or None,
        looked_at=page.looked_at,
    )


@operation(
    router,
    "GET",
    "/effects/{effect_id}",
    scope=scopes.SEE_EFFECTS,
    answers={200: schemas.EffectDetails},
    refusals=[NOT_FOUND],
)
def get_effect(request: HttpRequest, effect_id: Id, response: HttpResponse) -> schemas.EffectDetails:
    """Return all about one effect, with what is in its way, and what people have said about it."""
    effect = _effect(effect_id)
    response.headers["ETag"] = etags.etag(actions.version_of(effect))
    return _details(effect)


@operation(
    router,
    "POST",
    "/effects/{effect_id}/resolutions",
    scope=scopes.RESOLVE_EFFECTS,
    answers={201: schemas.ResolvedEffect},
    refusals=[READ_ONLY, NOT_FOUND, NO_REASON, NOT_IN_THIS_STATE, CHANGED, IN_PROGRESS, OTHER_REQUEST],
)
def resolve_effect(
    request: HttpRequest,
    effect_id: Id,
    wanted: schemas.NewEffectResolution,
    idempotency_key: str = IDEMPOTENCY_KEY,
    if_match: str = IF_MATCH,
) -> HttpResponse:
    """Say what became of an effect, or what is to become of it. Of two calls together, the second finds it resolved.

    With the ETag of `GET /effects/{effect_id}` in If-Match, an effect that ended or was resolved meanwhile is left
    alone.
    """

    def resolve() -> tuple[int, schemas.ResolvedEffect]:
        seen = etags.seen_if_given(if_match, actions.version_of(_effect(effect_id)))
        with refused(NOT_IN_THIS_STATE, CannotBeResolved):
            effect = actions.resolve(actor(request), effect_id, Act(wanted.act), why=wanted.why, seen=seen)
        return 201, schemas.ResolvedEffect(effect=effect.pk, state=effect.state)  # type: ignore[arg-type]  # one of EffectState

    return once(request, idempotency_key, resolve)


@operation(router, "GET", "/effect-kinds", scope=scopes.SEE_EFFECTS, answers={200: schemas.EffectKinds})
def list_effect_kinds(request: HttpRequest) -> schemas.EffectKinds:
    """List the kinds of effects, and which of them are paused."""
    return schemas.EffectKinds(kinds=[_kind(**kind) for kind in looked(effect_text.kinds_data)])


@operation(
    router,
    "PUT",
    "/effect-kinds/{kind}/pause",
    scope=scopes.RESOLVE_EFFECTS,
    answers={204: None},
    refusals=KIND_CHANGES,
)
def pause_effect_kind(
    request: HttpRequest, kind: schemas.Kind, wanted: schemas.EffectReason, if_match: str = IF_MATCH
) -> HttpResponse:
    """Pause a kind: from now on, no effect of it is begun."""
    actions.pause(actor(request), kind, why=wanted.why, seen=_version(kind, if_match))
    return HttpResponse(status=204)


@operation(
    router,
    "DELETE",
    "/effect-kinds/{kind}/pause",
    scope=scopes.RESOLVE_EFFECTS,
    answers={204: None},
    refusals=KIND_CHANGES,
)
def resume_effect_kind(
    request: HttpRequest, kind: schemas.Kind, query: Query[schemas.EffectReasonQuery], if_match: str = IF_MATCH
) -> HttpResponse:
    """Resume this kind."""
    actions.resume(actor(request), kind, why=query.why, seen=_version(kind, if_match))
    return HttpResponse(status=204)


def _version(kind: str, if_match: str) -> str | None:
    """Return the version of the kind that the request may change; None for any. Raises Problem."""
    return etags.seen_if_given(if_match, actions.current_version(kind))


def _kind(*, paused: dict[str, Any] | None, version: str, **kind: Any) -> schemas.EffectKind:
    pause = paused or {"at": None, "who": "", "why": ""}
    return schemas.EffectKind(
        **kind, paused_at=pause["at"], who=pause["who"], why=pause["why"], etag=etags.etag(version)
    )


def _effect(effect_id: int) -> Effect:
    effect: Effect | None = Effect.objects.filter(pk=effect_id).first()
    if effect is None:
        raise Problem(NOT_FOUND, f"There is no effect {effect_id}.")
    return effect


def _values(effect: Effect) -> dict[str, Any]:
    columns = {"user": "user_key", "next_attempt_at": "due_at"}
    return {name: getattr(effect, columns.get(name, name)) for name in schemas.Effect.model_fields}


def _details(effect: Effect) -> schemas.EffectDetails:
    blockers = [schemas.EffectBlocker(kind=one.what, text=one.text, until=one.until) for one in reports.why(effect)]
    resolutions = [
        schemas.EffectResolution(**{name: getattr(one, name) for name in schemas.EffectResolution.model_fields})
        for one in effect.resolutions.order_by("pk")
    ]
    return schemas.EffectDetails(
        **_values(effect), context=effect.context, result=effect.result, blockers=blockers, resolutions=resolutions
    )
