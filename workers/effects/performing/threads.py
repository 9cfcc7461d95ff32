"""The threads of a process that perform effects. A call may take long, so no task waits for it.

1. A task calls `take_up`: it claims what is due, of each kind no more than this process may do at a time, and leaves
   each effect to a thread.
2. A thread performs its effect, claims the next one of the kind, and ends when none is due. So a kind that hangs keeps
   its own threads busy, and no other kind's.
3. While threads are busy, one more thread renews the leases of what they hold. If the process is killed, the leases
   end: what had not begun is taken back, and what had begun is asked about, or is `unknown`.
4. When the process ends, `close` waits for the calls that are in flight, for a while.

A thread cannot be ended from outside. A call that never returns keeps its thread, and its effect in flight, until the
process ends. So a call must set time-outs itself.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID, uuid4

from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, connections

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres import sessions
from weir.workers.effects import kinds
from weir.workers.effects.models import Effect
from weir.workers.effects.performing.attempts import perform
from weir.workers.effects.performing.leases import LEDGER

RENEWED: Final = 0.25  # the share of its time after which a lease is renewed
CLOSE_WITHIN_S: Final = 20.0

log = get_logger(__name__)


class EffectThreads:
    """The threads of one process. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards what follows
        self._at_work: Counter[str] = Counter()  # threads by kind
        self._held: dict[int, UUID] = {}  # the claims' tokens, by the effects' ids
        self._is_renewing = False
        self._is_closed = False

    def take_up(self) -> int:
        """Claim what is due, and leave it to threads; return how many effects. Waits for none of them."""
        taken = 0
        while room := self._room():
            limit = min(room.values())  # so no kind gets more than it has room for
            claimed = self._claim(limit, dict.fromkeys(room, True))
            for number, effect in enumerate(claimed):
                try:
                    self._start(effect)
                except BaseException:
                    self._give_back(claimed[number:])
                    raise
            taken += len(claimed)
            if len(claimed) < limit:
                break
        return taken

    def wait(self, within_s: float) -> bool:
        """Wait until no thread is busy; return False if that takes longer than `within_s` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._at_work, within_s)

    def close(self, within_s: float = CLOSE_WITHIN_S) -> None:
        """Claim nothing more, and wait for the calls that are in flight, up to `within_s` seconds."""
        with self._changed:
            self._is_closed = True
        if not self.wait(within_s):
            log.warning("effects_in_flight_at_the_end", effects=len(self._held))

    def _room(self) -> Mapping[str, int]:
        """Return for each kind how many more of its effects may be done now, if any."""
        with self._changed:
            if self._is_closed:
                return {}
            room = {kind.name: kind.at_once - self._at_work[kind.name] for kind in kinds.registered()}
            return {kind: number for kind, number in room.items() if number > 0}

    def _claim(self, limit: int, of: Mapping[str, bool]) -> list[Effect]:
        token = uuid4()
        claimed = LEDGER.claim(limit, token, of)
        with self._changed:
            self._held |= {effect.pk: token for effect in claimed}
        return claimed

    def _start(self, effect: Effect) -> None:
        """Leave the effect to a thread. Raises an error, and has changed nothing, if the host has no more threads."""
        with self._changed:
            self._at_work[effect.kind] += 1
            is_first = not self._is_renewing
            self._is_renewing = True
        try:
            if is_first:
                self._start_renewing()
            threading.Thread(target=self._serve, args=[effect], name=f"weir: {effect.kind}", daemon=True).start()
        except BaseException:
            self._leave(effect.kind)
            raise

    def _start_renewing(self) -> None:
        try:
            threading.Thread(target=self._renew, name="weir: leases of effects", daemon=True).start()
        except BaseException:
            with self._changed:
                self._is_renewing = False
            raise

    def _leave(self, kind: str) -> None:
        """Note that a thread of this kind is not busy any more."""
        with self._changed:
            self._at_work[kind] -= 1
            self._at_work += Counter()  # without those at zero
            self._changed.notify_all()

    def _give_back(self, claimed: Sequence[Effect]) -> None:
        """Make effects pending again for which there is no thread."""
        with self._changed:
            tokens = {self._held.pop(effect.pk) for effect in claimed}
        LEDGER.give_back(tokens, [effect.pk for effect in claimed])

    def _serve(self, effect: Effect) -> None:
        """Perform the effect, and those of its kind that are due after it."""
        following: Effect | None = effect
        try:
            while following:
                perform(following)
                self._let_go(following)
                following = self._next(effect.kind)
        except (DatabaseError, InterfaceError) as error:  # PostgreSQL is away for long: the leases end
            log.warning("effects_not_written", error=str(error))
        finally:
            if following:
                self._let_go(following)
            self._leave(effect.kind)
            connections.close_all()  # this thread's connections

    def _next(self, kind: str) -> Effect | None:
        with self._changed:
            if self._is_closed:
                return None
        claimed = self._claim(1, {kind: True})
        return claimed[0] if claimed else None

    def _let_go(self, effect: Effect) -> None:
        with self._changed:
            self._held.pop(effect.pk, None)

    def _renew(self) -> None:
        """Renew the leases of what the threads hold, until none is busy."""
        # Calls may hold all connections of a pool for as long as they take.
        connections[DEFAULT_DB_ALIAS] = sessions.another(connections[DEFAULT_DB_ALIAS])
        due_at = 0.0
        while self._goes_on():
            if time.monotonic() < due_at:
                continue
            due_at = time.monotonic() + RENEWED * min(settings.WEIR_EFFECT_LEASE, settings.WEIR_EFFECT_UNKNOWN_AFTER)
            with self._changed:
                tokens = set(self._held.values())
            try:
                LEDGER.renew(tokens)
            except Exception as error:  # noqa: BLE001  whatever it is: without a lease, an effect may happen twice
                log.warning("effects_not_renewed", error=f"{type(error).__name__}: {error}")
                connections.close_all()
                due_at = time.monotonic() + 1.0
        connections.close_all()

    def _goes_on(self) -> bool:
        """Wait until the next look; return False, and let the next thread renew, if no thread is busy."""
        with self._changed:
            if self._changed.wait_for(lambda: not self._at_work, 1.0):
                self._is_renewing = False
                return False
            return True


THREADS: Final = EffectThreads()
