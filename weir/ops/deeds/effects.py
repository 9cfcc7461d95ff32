"""What operators can do to effects, and to their kinds."""

from typing import Final

from weir.ops.deeds import Deed, Values
from weir.ops.forms import SeenDecision
from weir.workers.audit.acting import Actor
from weir.workers.effects import actions
from weir.workers.effects.models import Act


def _effect(act: Act, title: str, explains: str) -> Deed:
    def do(actor: Actor, effect_id: int, values: Values) -> None:
        actions.resolve(actor, effect_id, act, why=values["why"], seen=values["seen"])

    return Deed(title=title, explains=explains, action=actions.RESOLVE[act], form=SeenDecision, do=do)


ACTS: Final = {act.value.replace(" ", "-"): act for act in Act}
EFFECT: Final = {
    "done": _effect(Act.DONE, "It happened", "An unknown effect counts as done."),
    "again": _effect(
        Act.AGAIN,
        "Do it again",
        "Where it is unknown, or was left undone, it may happen twice. It does not expire any more.",
    ),
    "ask": _effect(Act.ASK, "Ask the probe again", "The probe of its kind is asked what became of it."),
    "give-up": _effect(Act.GIVE_UP, "Leave it undone", "It is not done again, and whether it happened is not known."),
    "cancel": _effect(Act.CANCEL, "Cancel", "One that waits is not done."),
}
EFFECT_KIND: Final = {
    "pause": Deed(
        title="Pause",
        explains="No effect of the kind is begun from now on.",
        action=actions.PAUSE,
        form=SeenDecision,
        do=lambda actor, kind, values: actions.pause(actor, kind, why=values["why"], seen=values["seen"]),
        unchanged="Nothing was changed: the kind is paused already, and the reason that was given then stays.",
    ),
    "resume": Deed(
        title="Resume",
        explains="Effects of the kind are begun from now on.",
        action=actions.RESUME,
        form=SeenDecision,
        do=lambda actor, kind, values: actions.resume(actor, kind, why=values["why"], seen=values["seen"]),
    ),
}
