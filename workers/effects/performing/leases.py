"""The ledger of effects: what a worker writes about the effects that it holds."""

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from uuid import uuid4

from django.db.models import F
from django.db.models.functions import Now

from weir.conf import settings
from weir.postgres.statements import Statement, execute
from weir.workers import claims
from weir.workers.effects import kinds
from weir.workers.effects.kinds import EffectKind
from weir.workers.effects.models import Effect
from weir.workers.effects.names import NAMES, EffectState
from weir.workers.effects.on_done import call_on_done
from weir.workers.ledger.leases import Ledger
from weir.workers.ledger.names import LedgerEvents
from weir.workers.ledger.outcomes import Outcome
from weir.workers.ledger.rows import EndedRow

CLAIM_THESE = Statement("claim_these", returns=int, commits=True)


class EffectLedger(Ledger[Effect]):
    """The ledger of effects."""

    noun = "effect"
    events = LedgerEvents("effect_unknown", "effect_failed", "effects_expired", "effects_not_written")
    own: Mapping[str, object] = {"result": None}

    def lease(self) -> timedelta:
        return timedelta(seconds=settings.WEIR_EFFECT_LEASE)

    def silent_after(self) -> timedelta:
        return timedelta(seconds=settings.WEIR_EFFECT_UNKNOWN_AFTER)

    def lease_begun(self) -> timedelta:
        """Return for how long an effect is in flight without a word of its process: a call may take long."""
        return self.silent_after()

    def take_back_abandoned(self, **marks: object) -> int:
        """Also count an attempt: each claimed effect is called, and the call may be what has killed its process."""
        died = "The worker that had claimed it died before it began it."
        return super().take_back_abandoned(attempts=F("attempts") + 1, last_reply=died, **marks)

    def after_expiry(self, ended: Sequence[EndedRow]) -> None:
        """Call the tasks of those that have expired."""
        if ended:
            call_on_done(row.id for row in ended)

    def probed(self) -> Sequence[str]:
        return [kind.name for kind in kinds.registered() if kind.probe]

    def is_asked_about(self, row: Effect) -> bool:
        """Return whether the other side is asked: a probe at least once, even if no process ran for long."""
        if row.ask_until is not None and row.kind in self.probed():
            return True
        return super().is_asked_about(row)

    def asked_for_kind(self, kind: EffectKind) -> timedelta | None:
        """Return how long after `begin` it can be asked what became of an effect of this kind; None: never."""
        return kind.probe_for if kind.probe else self.asked_for(kind.key_lifetime)

    def claim_these(self, ids: Collection[int], lease: timedelta) -> dict[int, Effect]:
        """Claim effects for the room that performs them; return those that it has now, by id.

        Only the process that has the turn of an effect may call this. An effect that another one has begun, which has
        lost the turn since, is asked about, or becomes unknown, before.
        """
        token, these = uuid4(), Effect.objects.filter(pk__in=ids)
        if these.filter(state=EffectState.BEGUN).exists():
            claims.each_locked(these.filter(state=EffectState.BEGUN), self._end_lost)
        claimed_by = f"{socket.gethostname()}:{os.getpid()}"
        known = [kind.name for kind in kinds.registered()]
        claimed = CLAIM_THESE(
            effects=[*ids], token=token, claimed_by=claimed_by, lease=lease, kinds=known, probed=[*self.probed()]
        )
        return {effect.pk: effect for effect in Effect.objects.filter(pk__in=claimed, claim_token=token)}

    def record_within(self, row: Effect, outcome: Outcome) -> bool:
        """Write the outcome as `record` does, but once, and in the caller's transaction."""
        parameters = self._recorded(row, outcome)
        is_written = bool(execute(self._record, parameters))
        if not is_written and outcome.state == EffectState.DONE:
            is_written = bool(execute(self._note_acceptance, parameters))
        self._log_outcome(row, outcome, is_written=is_written)
        return is_written

    def _end_lost(self, row: Effect) -> None:
        """End a begun effect whose process is lost, and whose request may still be on its way: a probe waits."""
        self._end(row)
        kind = next((kind for kind in kinds.registered() if kind.name == row.kind), None)
        if row.state == EffectState.PENDING and kind and kind.probe:
            Effect.objects.filter(pk=row.pk).update(next_attempt_at=Now() + kind.settles_after)


LEDGER = EffectLedger(Effect, NAMES)
