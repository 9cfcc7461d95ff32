"""What operators see of effects: the numbers of each state, and why an effect waits."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.utils import timezone

from weir.postgres import planner
from weir.postgres.statements import Statement
from weir.workers.effects import kinds
from weir.workers.effects.models import Effect, PausedEffectKind
from weir.workers.effects.names import EffectState
from weir.workers.on_done.unknown import CALLED_AGAIN
from weir.workers.processes.status import processes

MOST = 10_000  # no number is counted beyond this


class EffectNumbers(NamedTuple):
    """How many effects are in each state but `done`, up to MOST."""

    pending: int
    claimed: int
    begun: int
    failed: int
    unknown: int
    cancelled: int
    expired: int


class EffectBlocker(NamedTuple):
    """One thing that is in an effect's way."""

    what: str  # for machines
    text: str  # a sentence
    until: datetime | None = None


STATES = Statement("states", row=EffectNumbers, commits=False)


def by_state() -> EffectNumbers:
    """Count the effects of each state but `done`."""
    with transaction.atomic():
        planner.by_indexes()
        [numbers] = STATES(most=MOST)
    return numbers


def why(effect: Effect) -> list[EffectBlocker]:
    """Return what is in the effect's way, first what needs somebody; an empty list if it has ended for good."""
    if effect.state == EffectState.PENDING:
        found = [*_by_people(effect), *_by_time(effect), *_without_worker(effect)]
        return found or [EffectBlocker("turn", "Nothing is in its way: the next worker that is free takes it.")]
    if effect.state == EffectState.CLAIMED:
        text = f"The process {effect.claimed_by} has claimed it, and has not begun."
        return [EffectBlocker("claimed", text, effect.claimed_until)]
    if effect.state == EffectState.BEGUN:
        text = (
            f"The process {effect.claimed_by} has begun it at {_moment(effect.begun_at)}, and its call has not ended."
        )
        return [
            EffectBlocker("begun", f"{text} Without a word of that process, {_then(effect)}.", effect.claimed_until)
        ]
    if effect.state == EffectState.UNKNOWN:
        asks = ", `--ask`" if any(kind.probe for kind in kinds.registered() if kind.name == effect.kind) else ""
        text = (
            "Whether it happened is not known: find out, and say so by "
            f"`manage.py effects resolve {effect.pk} --done`{asks}, `--again` or `--give-up`."
        )
        return [EffectBlocker("unknown", text)]
    if effect.on_done_again_at:
        text = f"A worker knew no task {effect.on_done}, which it names as its on_done: {CALLED_AGAIN}."
        return [EffectBlocker("on_done", text, effect.on_done_again_at)]
    return []


def _then(effect: Effect) -> str:
    return "it is asked what became of it then" if effect.ask_until else "it is unknown then"


def _by_people(effect: Effect) -> Iterator[EffectBlocker]:
    if paused := PausedEffectKind.objects.filter(pk=effect.kind).first():
        text = f"{paused.who} has paused the kind {effect.kind} since {_moment(paused.paused_at)}: {paused.why}"
        yield EffectBlocker("paused", text)
    if effect.kind not in {kind.name for kind in kinds.registered()}:
        yield EffectBlocker("no kind", f"No installed app registers the kind {effect.kind}: it waits until one does.")


def _by_time(effect: Effect) -> Iterator[EffectBlocker]:
    if effect.due_at is None:
        text = f"A fetcher begins it in its turn: `manage.py fetches why {effect.context.get('fetch')}` says when."
        yield EffectBlocker("fetch", text)
    elif effect.due_at > timezone.now():
        reason = (
            f"Attempt {effect.attempts} was in vain: {effect.last_reply}" if effect.attempts else "It is for later."
        )
        yield EffectBlocker("not due", f"It is not due yet. {reason}", effect.due_at)
    if effect.ask_until is not None:
        yield EffectBlocker("asked", "It may have happened: it is asked what became of it.", effect.ask_until)


def _without_worker(effect: Effect) -> Iterator[EffectBlocker]:
    if effect.due_at is None:
        return
    if not any("mailer" in process.kinds and process.runs for process in processes()):
        yield EffectBlocker("no worker", "No mailer runs: start a worker of the queue weir.mail.")


def _moment(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else "an unknown time"
