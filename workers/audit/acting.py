"""How an operator changes something: an Actor does an AuditedAction, which writes an entry in the audit trail.

    PAUSE = AuditedAction("sites.pause", permission="weir_ratelimit.change_site")

    PAUSE.allow(actor)
    with transaction.atomic(), PAUSE.recorded(actor, host, why, state=settings_of_site):
        ...  # the change

The operators' pages, the admin, the commands and the API call the same function, in the `actions` of the room that owns
the data. The function first checks the permission. Then it changes the data and writes the entry in one transaction:
no change is without an entry, and no entry is about a change that was rolled back.
"""

import getpass
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
    """An operator may not do this action; the text says why, and what to do next. Nothing was changed."""


class NotPermitted(ActRefused):
    """The actor lacks the permission."""


class ReadOnly(ActRefused):
    """No operator may change anything now, because WEIR_OPS_READ_ONLY is set."""


class NoReason(ActRefused, ValueError):
    """The action wants a reason, and the actor has given none."""


class Changed(ActRefused):
    """The target was changed after the actor has seen it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """A person, or a program, that changes something."""

    name: str
    door: Door
    may: Callable[[str], bool]  # whether the actor has a permission, such as weir_ratelimit.change_site
    entries: list[Entry] = field(default_factory=list)  # what was recorded of this actor, in this process, so far


def of_request(request: HttpRequest, door: Door) -> Actor:
    """Return the user of a request as an actor."""
    return Actor(name=request.user.get_username(), door=door, may=request.user.has_perm)


def of_shell(name: str | None = None) -> Actor:
    """Return the actor at the shell, who may do everything, because a shell also has Weir's secrets.

    The default name is that of the user in the operating system. Raises ActRefused if that user has no name.
    """
    try:
        name = name or getpass.getuser()
    except (KeyError, OSError) as error:  # in a container, the user may have only a number
        raise ActRefused("The operating system does not know your name: say it with --who.") from error
    return Actor(name=name, door=Door.COMMAND, may=lambda _permission: True)


def of_code(who: str) -> Actor:
    """Return the person in whose name code of the project acts, which decides itself what that person may do."""
    return Actor(name=who.strip(), door=Door.CODE, may=lambda _permission: True)


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """An action of operators: its name in the audit trail, the permission for it, and whether it needs a reason."""

    name: str
    permission: str
    wants_reason: bool = False

    def allow(self, actor: Actor, why: str = "") -> None:
        """Raise NotPermitted, ReadOnly or NoReason if the actor may not do it. Executes no statement of its own."""
        if not actor.may(self.permission):
            raise NotPermitted(f"{actor.name} lacks the permission {self.permission}, which {self.name} takes.")
        if settings.WEIR_OPS_READ_ONLY:
            raise ReadOnly(READ_ONLY)
        if self.wants_reason and not why.strip():
            raise NoReason(f"{self.name} wants a reason: say why. It is kept.")

    @contextmanager
    def recorded(self, actor: Actor, target: str, why: str = "", *, state: Callable[[], State]) -> Iterator[None]:
        """Write an entry of what the block changes, in the open transaction; if it changes nothing, write none.

        `state` returns the state of the target. It is called before and after the block; the first call must lock the
        target until the transaction ends.
        """
        before = state()
        yield
        if (after := state()) != before:
            self.record(actor, target, why, before=before, after=after)

    def record(self, actor: Actor, target: str, why: str = "", *, before: State, after: State) -> None:
        """Write an entry, in the open transaction, which must also be the transaction of the change."""
        entry = Entry.objects.create(
            actor=actor.name[:LONGEST_ACTOR],
            door=actor.door,
            action=self.name,
            target=target[:LONGEST_TARGET],
            why=why.strip(),
            before=before,
            after=after,
            correlation_id=correlation.current(),
        )
        actor.entries.append(entry)


def version(state: State) -> str:
    """Return a text that is the same for equal states and differs for different ones, as an ETag does."""
    text = json.dumps(state, cls=DjangoJSONEncoder, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def refuse_changed(target: str, current: str, seen: str | None) -> None:
    """Raise Changed if the actor has seen another version of the target than the current one; None is any version.

    The caller must have locked the target until the transaction ends. If there is no row to lock, as for a kind of
    e-mail that is not paused, the caller must find out by the row that it makes whether another actor was faster.
    """
    if seen is not None and seen != current:
        raise Changed(f"{target} was changed meanwhile: look at it again, and decide anew.")
