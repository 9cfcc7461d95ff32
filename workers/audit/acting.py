"""How an operator changes something: by an Action, as an Actor, with an entry in the audit trail.

    PAUSE = Action("sites.pause", permission="weir_ratelimit.change_site")

    PAUSE.allow(actor)
    with transaction.atomic(), PAUSE.recorded(actor, host, why, state=settings_of_site):
        ...  # the change

The page, the admin, the command and the API call the same function, which is in the `actions` of the room that owns the
data. It checks first, then changes and records in one transaction: nothing is changed without its entry, and there is
no entry of a change that was rolled back.
"""

import getpass
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest

from weir.conf import settings
from weir.workers.audit.models import Door, Entry
from weir.workers.tracing import correlation

State = Mapping[str, object] | None
READ_ONLY: Final = "WEIR_OPS_READ_ONLY is set: operators change nothing now. Unset it, and try again."
LONGEST_TARGET: Final = Entry._meta.get_field("target").max_length or 0  # noqa: SLF001  documented, in spite of its name
LONGEST_ACTOR: Final = Entry._meta.get_field("actor").max_length or 0  # noqa: SLF001  as above


class ActRefused(Exception):
    """An operator may not do this; the text says why, and what to do next. Nothing was changed."""


class NotPermitted(ActRefused):
    """The actor lacks the permission."""


class ReadOnly(ActRefused):
    """No operator may change anything now: WEIR_OPS_READ_ONLY."""


class NoReason(ActRefused, ValueError):
    """The action wants a reason."""


class Changed(ActRefused):
    """The target of the change is not what the actor has seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """A person, or a program, that changes something."""

    name: str
    door: Door
    may: Callable[[str], bool]  # whether it has a permission, such as weir_ratelimit.change_site


def of_request(request: HttpRequest, door: Door) -> Actor:
    """Return the user of a request."""
    return Actor(name=request.user.get_username(), door=door, may=request.user.has_perm)


def of_shell(name: str | None = None) -> Actor:
    """Return the actor at the shell, who may do all: Weir's secrets are there. Raises ActRefused without a name."""
    try:
        name = name or getpass.getuser()
    except (KeyError, OSError) as error:  # a container whose user has a number only
        raise ActRefused("The operating system does not know your name: say it with --who.") from error
    return Actor(name=name, door=Door.COMMAND, may=lambda _permission: True)


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """What operators may do: its name in the audit trail, and the permission that it takes."""

    name: str
    permission: str
    wants_reason: bool = False

    def allow(self, actor: Actor, why: str = "") -> None:
        """Raise NotPermitted, ReadOnly or NoReason if the actor may not do this. Executes no statement of its own."""
        if not actor.may(self.permission):
            raise NotPermitted(f"{actor.name} lacks the permission {self.permission}, which {self.name} takes.")
        if settings.WEIR_OPS_READ_ONLY:
            raise ReadOnly(READ_ONLY)
        if self.wants_reason and not why.strip():
            raise NoReason(f"{self.name} wants a reason: say why. It is kept.")

    @contextmanager
    def recorded(
        self, actor: Actor, target: str, why: str = "", *, state: Callable[[], State], seen: str | None = None
    ) -> Iterator[None]:
        """Record what the block changes, in the transaction that is open; if it changes nothing, there is no entry.

        `state` returns the target as it is, and is called before and after the block; before, it must lock the target
        until the transaction ends. `seen` is the version that the actor wants to change: Changed is raised if the
        target has another one.
        """
        before = state()
        if seen is not None and version(before) != seen:
            raise Changed(f"{target} was changed meanwhile: look at it again, and repeat what you want to change.")
        yield
        if (after := state()) != before:
            self.record(actor, target, why, before=before, after=after)

    def record(self, actor: Actor, target: str, why: str = "", *, before: State, after: State) -> None:
        """Write an entry, in the transaction that is open: that of the change."""
        Entry.objects.create(
            actor=actor.name[:LONGEST_ACTOR],
            door=actor.door,
            action=self.name,
            target=target[:LONGEST_TARGET],
            why=why.strip(),
            before=before,
            after=after,
            correlation_id=correlation.current(),
        )


def version(state: State) -> str:
    """Return a text that differs if two states differ, as an ETag does."""
    text = json.dumps(state, cls=DjangoJSONEncoder, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
