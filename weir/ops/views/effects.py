"""Effects: how many there are of each state, their kinds, lists of them, and all about one."""

import json
from datetime import datetime
from functools import partial
from typing import Final

from django.http import Http404, HttpRequest

from weir.ops.deeds.effects import ACTS
from weir.ops.filters import Choice, Chosen, PageFilters, Text
from weir.ops.pages import OpsPage, OwnPart, done, page
from weir.ops.snapshots import Snapshots, look
from weir.postgres import planner
from weir.workers.effects import listing, reports, resolving
from weir.workers.effects.actions import version_of
from weir.workers.effects.management import effect_text
from weir.workers.effects.models import Effect
from weir.workers.effects.names import EffectState
from weir.workers.fetches.reports.preview import visible
from weir.workers.ledger.paging import RowsPage

MAY_READ: Final = "weir_effects.view_effect"  # what an effect was asked to do, and what it returned
LONGEST_TEXT: Final = 20_000  # characters
FILTERS: Final = PageFilters(
    Choice(
        name="state",
        label="State",
        values=[state.value for state in EffectState],
        default=EffectState.UNKNOWN.value,
        default_if_alone=True,
    ),
    Choice(name="kind", label="Kind", values=listing.names),
    Text(name="key", label="Key"),
    Text(name="user", label="User"),
)


def _numbers() -> dict[str, object]:
    kinds = effect_text.kinds_data()
    for paused in filter(None, (kind["paused"] for kind in kinds)):
        paused["since"] = datetime.fromisoformat(paused["at"])
    return {"states": reports.by_state()._asdict(), "kinds": kinds}


_all_numbers: Snapshots[dict[str, object]] = Snapshots()
_lists: Snapshots[RowsPage[Effect]] = Snapshots()
_effects: Snapshots[dict[str, object] | None] = Snapshots()


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show the numbers of all states, the kinds, and a page of a list."""
    chosen = FILTERS.read(request.GET)

    def found() -> RowsPage[Effect]:
        planner.by_indexes()
        return listing.page(wanted(chosen), chosen.cursor)

    numbers, snapshot = _all_numbers.get(done(request), _numbers), _lists.get((chosen.key, done(request)), found)
    shows = {"numbers": numbers, "chosen": chosen, "list": snapshot, "in_any_state": chosen.query_with_any("state")}
    return OpsPage(
        template="weir/ops/effects.html", title="Effects", good_for_s=min(numbers.left_s, snapshot.left_s), shows=shows
    )


def wanted(chosen: Chosen) -> listing.EffectFilters:
    """Return the filters that were chosen."""
    return listing.EffectFilters(**chosen.values)


@page
def show(request: HttpRequest, effect_id: int) -> OpsPage:
    """Show all that is known of one effect."""

    def found() -> dict[str, object] | None:
        effect = Effect.objects.filter(pk=effect_id).first()
        if effect is None:
            return None
        deeds = [what for what, act in ACTS.items() if not resolving.refusal(effect, act)]
        return {"effect": effect, "blockers": reports.why(effect), "version": version_of(effect), "deeds": deeds} | {
            "resolutions": list(effect.resolutions.order_by("pk"))
        }

    snapshot = _effects.get((effect_id, done(request)), found)
    if snapshot.value is None and not snapshot.failure:
        raise Http404(f"There is no effect {effect_id}.")
    return OpsPage(
        template="weir/ops/effect.html",
        title=f"Effect {effect_id}",
        good_for_s=snapshot.left_s,
        shows={"id": effect_id, "snapshot": snapshot},
        own=partial(_own, request, effect_id),
    )


def _own(request: HttpRequest, effect_id: int) -> OwnPart:
    """Return what only some visitors may read."""
    shows: dict[str, object] = {"permission": MAY_READ, "may_read": request.user.has_perm(MAY_READ)}
    if shows["may_read"]:
        looked = look(lambda: Effect.objects.filter(pk=effect_id).values("context", "result").first())
        texts = (
            (name, json.dumps(value, indent=2, ensure_ascii=False)) for name, value in (looked.value or {}).items()
        )
        said = {name: (visible(text[:LONGEST_TEXT]), len(text) > LONGEST_TEXT) for name, text in texts}
        shows |= {"id": effect_id, "failure": looked.failure, "said": said}
    return OwnPart(template="weir/ops/effect_says.html", shows=shows)
