"""Lists effects page by page: those of a state, of a kind, with a key, or of a user.

Where two filters are given, an index usually serves only one of them: see ledger/paging.py.
"""

from dataclasses import dataclass

from django.db.models import QuerySet

from weir.workers.effects import kinds
from weir.workers.effects.models import Effect, EffectQuerySet, PausedEffectKind
from weir.workers.effects.names import EffectState
from weir.workers.ledger import paging
from weir.workers.ledger.paging import NEWEST_FIRST, RowsPage


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectFilters:
    """Which effects are wanted: their state, their kind, their key, their user's key. "" selects any."""

    state: str = ""
    kind: str = ""
    key: str = ""
    user: str = ""


def listed(wanted: EffectFilters) -> QuerySet[Effect]:
    """Return the effects: the newest first of a user's, and of those that are done or in any state; else the oldest."""
    chosen = {name: value for name in ("state", "kind") if (value := getattr(wanted, name))}
    found: EffectQuerySet = Effect.objects.filter(**chosen)
    if wanted.key:
        found = found.filter(pk__in=ids_of_key(wanted.key, wanted.kind))
    if wanted.user:
        found = found.of_user(wanted.user)
    return found.order_by(*_order(wanted))


def page(wanted: EffectFilters, cursor: str = "") -> RowsPage[Effect]:
    """Return up to paging.A_PAGE effects after the cursor. Reads only. Raises BadCursor."""
    column = _order(wanted)[0]
    served = None
    if wanted.user:
        served = listed(EffectFilters(user=wanted.user)) if wanted.state or wanted.kind else None
    elif wanted.kind and not wanted.key:
        served = listed(EffectFilters(state="" if column == NEWEST_FIRST else wanted.state))
    elif wanted.state == EffectState.DONE and not wanted.key:
        served = listed(EffectFilters())
    return paging.page(listed(wanted), served, column, cursor, paging.moment)


def ids_of_key(key: str, kind: str = "") -> list[int]:
    """Return the effects with this key, of one kind, or of all that are registered or paused: one for each, at most.

    It is a query of its own: PostgreSQL might read the table in the order of a list for it.
    """
    known = {kind} if kind else {*names(), *PausedEffectKind.objects.values_list("kind", flat=True)}
    return list(Effect.objects.filter(kind__in=known, key=key).order_by("kind").values_list("pk", flat=True))


def names() -> list[str]:
    """Return the names of the kinds that are registered."""
    return [kind.name for kind in kinds.registered()]


def _order(wanted: EffectFilters) -> tuple[str, ...]:
    return (NEWEST_FIRST,) if wanted.user or wanted.state in {"", EffectState.DONE} else ("created_at", "pk")
