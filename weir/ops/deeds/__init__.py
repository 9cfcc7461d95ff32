"""Deed: what an operator can do to one thing, with its form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.forms import Form

from weir.ops.forms import Reason
from weir.workers.audit.acting import Actor, AuditedAction

Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Deed:
    """What an operator can do to one thing."""

    title: str
    explains: str
    action: AuditedAction
    do: Callable[[Actor, Any, Values], object]
    form: type[Form] = Reason
    unchanged: str = "Nothing was changed: it was like that already."  # said if nothing was recorded
    beside: tuple[AuditedAction, ...] = ()  # what the actor must be permitted, too

    @property
    def actions(self) -> tuple[AuditedAction, ...]:
        """All that the actor must be permitted."""
        return (*self.beside, self.action)

    def allow(self, actor: Actor) -> None:
        """Raise acting.NotPermitted or acting.ReadOnly if the actor may not do it."""
        for action in self.actions:
            action.allow(actor, "?")  # not the real reason, for which the form asks
