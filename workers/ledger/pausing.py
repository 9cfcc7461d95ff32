"""Lets operators pause and resume whole kinds, with a reason and an entry in the audit trail."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import transaction

from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction, State
from weir.workers.ledger.rows import Pause

Change = Callable[[str, str, str], bool]  # pauses or resumes a kind, by whom, and why; False: it was like that


class PausedKinds:
    """The kinds of a room that are paused. `begin` pauses a kind, and `end` resumes it, without a record.

    Both methods raise acting.ActRefused if the actor may not act, or gives no reason, and acting.Changed if `seen`, the
    version that the actor has looked at, is not the kind's version any more; None stands for any version.
    """

    def __init__(
        self, pauses: type[Pause], *, pause: AuditedAction, resume: AuditedAction, begin: Change, end: Change
    ) -> None:
        self._rows: Any = pauses._default_manager  # noqa: SLF001  documented, in spite of its name
        self._pause, self._resume, self._begin, self._end = pause, resume, begin, end

    def pause(self, actor: Actor, kind: str, *, why: str, seen: str | None = None) -> bool:
        """Begin no more of this kind. Return False if it was paused already; then the first reason stays.

        What a worker has claimed is still begun. Of two actors who pause a kind at once, the second gets False, too,
        and not acting.Changed: a kind that is not paused has no row that the first one could have locked.
        """
        self._pause.allow(actor, why)
        with transaction.atomic():
            self._refuse_changed(kind, seen)
            if is_new := self._begin(kind, actor.name, why):
                self._pause.record(actor, kind, why, before=None, after=_said(self._locked(kind)))
            return is_new

    def resume(self, actor: Actor, kind: str, *, why: str, seen: str | None = None) -> bool:
        """Resume this kind; return False if it was not paused. The kind need not be registered any more."""
        self._resume.allow(actor, why)
        with transaction.atomic():
            before = _said(self._refuse_changed(kind, seen))
            if was_paused := self._end(kind, actor.name, why):
                self._resume.record(actor, kind, why, before=before, after=None)
            return was_paused

    def current_version(self, kind: str) -> str:
        """Return the version that the kind has now."""
        return version_of(self._rows.filter(kind=kind).values_list("paused_at", flat=True).first())

    def pause_of(self, kind: str) -> Pause:
        """Return who has paused the kind, and why. Raises the model's DoesNotExist."""
        paused: Pause = self._rows.get(pk=kind)
        return paused

    def _refuse_changed(self, kind: str, seen: str | None) -> Pause | None:
        paused = self._locked(kind)
        acting.refuse_changed(kind, version_of(paused.paused_at if paused else None), seen)
        return paused

    def _locked(self, kind: str) -> Pause | None:
        paused: Pause | None = self._rows.select_for_update().filter(kind=kind).first()
        return paused


def version_of(paused_at: datetime | None) -> str:
    """Return the version of a kind by when it was paused; None: it is not paused."""
    return acting.version({"paused_at": paused_at})


def _said(pause: Pause | None) -> State:
    return None if pause is None else {"who": pause.who, "why": pause.why}
