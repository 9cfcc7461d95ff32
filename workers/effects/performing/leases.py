"""The ledger of effects: what a worker writes about the effects that it holds."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from django.db.models import F

from weir.conf import settings
from weir.workers.effects import kinds
from weir.workers.effects.kinds import EffectKind
from weir.workers.effects.models import Effect
from weir.workers.effects.names import NAMES
from weir.workers.effects.on_done import call_on_done
from weir.workers.ledger.leases import EndedRow, Ledger
from weir.workers.ledger.names import LedgerEvents


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


LEDGER = EffectLedger(Effect, NAMES)
