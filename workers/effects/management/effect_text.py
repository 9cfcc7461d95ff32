"""Formats effects for people and for machines."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from rich.text import Text

from weir.workers.cli import terminal
from weir.workers.effects import actions, kinds, reports
from weir.workers.effects.models import Act, Effect, PausedEffectKind

TIMES = (
    "created_at",
    "next_attempt_at",
    "expires_at",
    "begun_at",
    "done_at",
    "ended_at",
    "ask_until",
    "on_done_called_at",
    "on_done_again_at",
    "forgotten_at",
)
TEXTS = ("kind", "key", "state", "phase", "last_reply", "claimed_by", "reference", "correlation_id", "on_done")


def as_data(effect: Effect) -> dict[str, Any]:
    """Return an effect for machines."""
    times = {name: _text(getattr(effect, name)) for name in TIMES} | {"next_attempt_at": _text(effect.due_at)}
    texts = {name: getattr(effect, name) for name in TEXTS}
    return {
        "id": effect.pk,
        **texts,
        "user": effect.user_key,
        "attempts": effect.attempts,
        "idempotency_key": str(effect.idempotency_key),
        "result": effect.result,
        **times,
    }


def details(effect: Effect) -> dict[str, Any]:
    """Return everything about an effect: its row, what is in its way, and what people said about it."""
    said = effect.resolutions.order_by("pk")
    return {
        **as_data(effect),
        "context": effect.context,
        "version": actions.version_of(effect),
        "why": [{"what": each.what, "text": each.text, "until": _text(each.until)} for each in reports.why(effect)],
        "resolutions": [
            {"at": each.resolved_at.isoformat(), "act": each.act, "who": each.who, "why": each.why, "was": each.state}
            for each in said
        ],
    }


def as_text(data: Mapping[str, Any]) -> str:
    """Return what `details` has, for people."""
    shown = {name: data[name] for name in ("id", *TEXTS, "user", "attempts", "idempotency_key", *TIMES, "version")}
    shown |= {name: json.dumps(data[name]) for name in ("context", "result") if data[name] is not None}
    lines = {
        name.replace("_", " "): terminal.printable(str(value))
        for name, value in shown.items()
        if value not in {None, ""}
    }
    text = "\n".join(terminal.fields(lines))
    for each in data["why"]:
        text += f"\n{terminal.printable(each['text'])}" + (f" ({each['until']})" if each["until"] else "")
    for each in data["resolutions"]:
        label = Act(each["act"]).label
        text += f"\n{each['at']}: {terminal.printable(each['who'])}: {label}: {terminal.printable(each['why'])}"
    return text


def kinds_data() -> list[dict[str, Any]]:
    """Return all kinds for machines: those that apps register, and those that are paused."""
    paused = {each.kind: each for each in PausedEffectKind.objects.all()}
    known = {kind.name: kind for kind in kinds.registered()}
    found = []
    for name in sorted({*known, *paused}):
        kind, pause = known.get(name), paused.get(name)
        found.append(
            {
                "kind": name,
                "is_registered": kind is not None,
                "settled_by": "probe" if kind and kind.probe else "key" if kind and kind.key_lifetime else None,
                "at_once": kind.at_once if kind else None,
                "paused": {"at": pause.paused_at.isoformat(), "who": pause.who, "why": pause.why} if pause else None,
                "version": actions.version_of_kind(pause.paused_at if pause else None),
            }
        )
    return found


def kinds_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the kinds."""
    if not found:
        return "No app registers a kind of effect."
    table = terminal.table("kind", "an unknown outcome is settled by", "at once", "paused", numbers=("at once",))
    table.columns[-1].no_wrap = False
    for each in found:
        paused = each["paused"]
        why = f"by {paused['who']}: {paused['why']}" if paused else ""
        by = {"probe": "its probe", "key": "its key"}.get(each["settled_by"], "a person")
        at_once = str(each["at_once"]) if each["is_registered"] else "not registered"
        table.add_row(Text(each["kind"]), by, at_once, Text(terminal.printable(why)))
    return terminal.rendered(table)


def age(effect: Effect) -> str:
    """Return for how long the effect has been in its state, as far as that is known."""
    since = effect.begun_at or effect.ended_at or effect.created_at
    return terminal.span(max((timezone.now() - since).total_seconds(), 0.0))


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
