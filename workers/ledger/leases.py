"""Writes what a worker does with the effects that it holds. Each method of Ledger commits by itself.

From the claim on, only the worker that has the claim's token writes the effect's row:

1. `claim`: `pending` -> `claimed`, for a lease.
2. `begin`, right before the first byte that may cause the effect: `claimed` -> begun, if the claim still holds.
3. `record`: the outcome, if the claim still holds.

If a worker dies, its claimed effects are taken back when their lease is over: it has not begun them. An effect that it
had begun is asked about if the other side can be asked, becomes `unknown` otherwise, and is not begun again unless an
operator says so.
"""

import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic
from uuid import UUID

from django.db.models.functions import Now

from weir.logs.loggers import get_logger
from weir.postgres import own_commits
from weir.postgres.statements import Statement
from weir.postgres.texts import storable
from weir.workers import claims
from weir.workers.ledger import rows
from weir.workers.ledger.claiming import ALL_KINDS, ClaimLost, taking
from weir.workers.ledger.names import LedgerEvents, LedgerNames
from weir.workers.ledger.outcomes import Outcome
from weir.workers.ledger.patience import patiently
from weir.workers.ledger.rows import EndedRow, Row
from weir.workers.tracing import correlation

SWEPT_AT_ONCE = 1_000
LONGEST_REPLY = 1_000  # characters of a reply that are kept
NOTHING_SAID = "No reply, and no reason, was given."  # for an app's own code that says nothing

log = get_logger(__name__)


BEGIN = Statement("begin", commits=True, prepare=True)
CLAIM = Statement("claim", returns=int, commits=True)
EXPIRE = Statement("expire", row=EndedRow, commits=True)
NOTE_ACCEPTANCE = Statement("note_acceptance", commits=True)
PUT_OFF = Statement("put_off", returns=int, commits=True)
RECORD = Statement("record", commits=True, prepare=True)


class Ledger(Generic[Row]):
    """The effects in one table. A room derives a class that says what is its own."""

    noun: str  # in log lines: the name of the field with the id
    events: LedgerEvents
    own: Mapping[str, object] = {}  # the parameters of the room's own columns, if an outcome has none
    no_word = "The worker that began it did not say what became of it: it died, or lost the database."

    def __init__(self, model: type[Row], names: LedgerNames) -> None:
        texts = names._asdict()
        self._model = model
        self._names = names
        self._rows: Any = model._default_manager  # noqa: SLF001  documented, in spite of its name
        self._longest_reference: int = model._meta.get_field(names.reference).max_length or 0  # type: ignore[union-attr]  # noqa: SLF001  documented
        self._begin = BEGIN.with_names(texts)
        self._claim = CLAIM.with_names(texts)
        self._expire = EXPIRE.with_names(texts)
        self._note_acceptance = NOTE_ACCEPTANCE.with_names(texts)
        self._put_off = PUT_OFF.with_names(texts)
        self._record = RECORD.with_names(texts)

    # --- What a room says

    def lease(self) -> timedelta:
        """Return for how long a claim holds."""
        raise NotImplementedError

    def silent_after(self) -> timedelta:
        """Return after which time no answer can come any more from the worker that has begun an effect."""
        raise NotImplementedError

    def lease_begun(self) -> timedelta | None:
        """Return for how long the lease of an effect holds that its worker has begun; None: it has none then."""
        return None

    def shown(self, row: Row, reply: str) -> str:  # noqa: ARG002  a room may need it
        """Return the reply without what must not be kept."""
        return reply

    def probed(self) -> Sequence[str]:
        """Return the kinds of which a question only reads."""
        return []

    def after_expiry(self, ended: Sequence[EndedRow]) -> None:
        """Do what a room does about effects that have expired."""

    # --- The state machine

    def claim(self, limit: int, token: UUID, kinds: Mapping[str, bool] = ALL_KINDS) -> list[Row]:
        """Claim up to `limit` due effects for a lease; return them in the order in which they are to be begun.

        `kinds` maps patterns of kinds, as in WEIR_MAIL_ROUTES, to whether this claim takes such kinds.
        Each claim needs a new token: with the same token, a late write for one claim would count for the other. Raises
        RuntimeError inside a transaction, because a claim must be committed.
        """
        if own_commits.is_in_transaction():
            raise RuntimeError("A claim must be committed before anything is begun: call it outside of transactions.")
        parameters = {
            "limit": limit,
            "token": token,
            "claimed_by": f"{socket.gethostname()}:{os.getpid()}",
            "lease": self.lease(),
            **taking(kinds),
        }
        claimed = self._claim(**parameters)
        found = self._rows.filter(pk__in=claimed, claim_token=token) if claimed else []
        return sorted(found, key=lambda row: (-row.priority, row.next_attempt_at, row.pk))

    def renew(self, tokens: Collection[UUID]) -> None:
        """Renew the leases of all effects that were claimed with these tokens, and have not been begun."""
        held = self._rows.filter(claim_token__in=tokens)
        held.filter(state=rows.CLAIMED).update(claimed_until=Now() + self.lease())
        if lease := self.lease_begun():
            held.filter(state=self._names.begun).update(claimed_until=Now() + lease)

    def asked_for(self, key_lifetime: timedelta | None) -> timedelta | None:
        """Return how long after `begin` an other side that keeps keys for `key_lifetime` may be asked; None: never.

        A question that arrives after the key was forgotten would cause a second effect. So no question begins that may
        still be in flight at that time.
        """
        if key_lifetime is None:
            return None
        asked = key_lifetime - self.silent_after()
        return asked if asked > timedelta() else None

    def begin(self, row: Row, asked_for: timedelta | None, *, is_probed: bool = False, **own: object) -> None:
        """Record that the effect begins now: from here on it is never taken back from its worker.

        `asked_for` says how long the other side may be asked what became of it, and `is_probed` that a question only
        reads. Raises ClaimLost if the claim is lost, or the effect has expired.
        """
        parameters = {"row": row.pk, "token": row.claim_token, "asked_for": asked_for, "is_probed": is_probed}
        if not self._begin(**parameters | {"lease": self.lease_begun()} | own):
            self.refuse_expired(row)
            raise ClaimLost

    def refuse_expired(self, row: Row) -> None:
        """If the effect has expired by the database's clock, end it, and raise ClaimLost with the outcome."""
        if row.expires_at is not None and self._rows.filter(pk=row.pk, expires_at__lte=Now()).exists():
            self.end_expired(0.0)
            state = rows.EXPIRED if row.ask_until is None else rows.UNKNOWN
            raise ClaimLost(Outcome(state=state, last_reply=row.last_reply, attempts=0))

    def end_expired(self, within_s: float) -> int:
        """End effects that have expired, even if they wait for a person or the other side; return how many.

        Works in short batches; after `within_s` seconds the rest is left to the next call. May be killed anywhere.
        """
        ended, batch, give_up_at = 0, SWEPT_AT_ONCE, time.monotonic() + within_s
        while batch == SWEPT_AT_ONCE and (not ended or time.monotonic() < give_up_at):
            found = self._expire(batch=SWEPT_AT_ONCE, probed=[*self.probed()])
            self._log_expired(found)
            self.after_expiry(found)
            batch = len(found)
            ended += batch
        return ended

    def may_be_asked_about(self, row: Row) -> bool:
        """Return whether the other side may still be asked, by the database's clock, not this host's."""
        return bool(self._rows.filter(pk=row.pk, ask_until__gt=Now()).exists())

    def is_asked_about(self, row: Row) -> bool:
        """Return whether the other side is asked about an effect whose worker is lost."""
        return self.may_be_asked_about(row)

    def record(self, row: Row, outcome: Outcome) -> bool:
        """Write the outcome of an attempt. If the claim is lost, log the outcome, which does not count; return False.

        The outcome is written even if the effect has become `unknown` meanwhile. An acceptance is written even if an
        operator has repeated the effect, or given it up. While PostgreSQL is away, this tries again for a minute,
        because only this worker knows the outcome.
        """
        is_written = patiently(lambda: self._write(row, outcome), self.events.not_written)
        self._log_outcome(row, outcome, is_written=is_written)
        return is_written

    def note_acceptance(self, row_id: int, said: str) -> bool:
        """Record what proves that the effect has happened, in any state; return False if that was known already.

        If a worker has begun it once more, its outcome will be that it has happened, whatever the worker learns.
        """
        return bool(self._note_acceptance(row=row_id, last_reply=said, reference="", **self.own))

    def give_back(self, tokens: Collection[UUID], only: Collection[int] | None = None) -> int:
        """Make the effects that were claimed with these tokens, and not begun, pending again; return how many.

        `only` limits this to effects with these ids.
        """
        claimed = self._rows.filter(claim_token__in=tokens, state=rows.CLAIMED)
        if only is not None:
            claimed = claimed.filter(pk__in=only)
        marks = {"state": rows.PENDING, "claim_token": None, "claimed_until": None}
        return patiently(lambda: int(claimed.update(**marks)), self.events.not_written)

    def put_off(self, waits_s: Mapping[int, float], token: UUID) -> int:
        """Make the effects in `waits_s` pending again, which were claimed with this token, and not tried.

        `waits_s` says, by id, in how many seconds each effect is due again. Up to a fifth is added, so that they
        spread. Returns how many are pending again.
        """
        parameters = {"token": token, "rows": list(waits_s), "seconds": list(waits_s.values())}
        return patiently(lambda: len(self._put_off(**parameters)), self.events.not_written)

    def take_back_abandoned(self, **marks: object) -> int:
        """Make the effects pending, with `marks`, that dead workers had claimed, and not begun; return how many."""
        marks |= {"state": rows.PENDING, "claim_token": None, "claimed_until": None}
        return len(claims.claim(self._rows.abandoned(), SWEPT_AT_ONCE, **marks))

    def end_silent(self) -> int:
        """Make the effects that dead workers had begun unknown; return how many.

        If the other side may be asked, the effect is pending instead, and the other side is asked.
        """
        unknown: list[int] = []

        def end(row: Row) -> None:
            if self._end(row):
                unknown.append(row.pk)

        claims.each_locked(self._rows.silent(self.silent_after()), end, SWEPT_AT_ONCE)
        return len(unknown)

    def _end(self, row: Row) -> bool:
        """Record, in the caller's transaction, that the worker did not report; return if the effect is unknown now."""
        if row.earlier_reply:  # an earlier attempt was accepted, which outweighs this attempt
            row.state, row.last_reply = self._names.done, row.earlier_reply
            setattr(row, self._names.done_at, Now())
        elif self.is_asked_about(row):
            row.state, row.next_attempt_at, row.last_reply = rows.PENDING, Now(), self.no_word
        else:
            row.state, row.last_reply = rows.UNKNOWN, self.no_word
            self._log_unknown(row, row.pk)
        is_unknown = bool(row.state == rows.UNKNOWN)
        if not is_unknown:
            row.claim_token = None
            setattr(row, self._names.begun_at, None)
        row.claimed_until = None
        row.ended_at = None if row.state == rows.PENDING else Now()
        changed = ["state", "last_reply", "claim_token", "claimed_until", "ended_at", "next_attempt_at"]
        row.save(update_fields=[*changed, self._names.begun_at, self._names.done_at])
        return is_unknown

    def _write(self, row: Row, outcome: Outcome) -> bool:
        parameters = self._recorded(row, outcome)
        if self._record(**parameters):
            return True
        return outcome.state == self._names.done and bool(self._note_acceptance(**parameters))

    def _recorded(self, row: Row, outcome: Outcome) -> dict[str, object]:
        return {
            "row": row.pk,
            "token": row.claim_token,
            "state": str(outcome.state),
            "phase": str(outcome.phase),
            "last_reply": storable(self.shown(row, outcome.last_reply), LONGEST_REPLY) or NOTHING_SAID,
            "attempts": outcome.attempts,
            "retry_in": timedelta(seconds=outcome.retry_in_s),
            "reference": storable(outcome.reference, self._longest_reference),
            "settles": outcome.is_settled,
            **self.own,
            **outcome.own,
        }

    def _log_outcome(self, row: Row, outcome: Outcome, *, is_written: bool) -> None:
        about = {self.noun: row.pk, "phase": outcome.phase, "reply": outcome.last_reply}
        if not is_written:
            log.warning("outcome_of_a_lost_claim", **about, state=outcome.state)
        elif outcome.state == rows.UNKNOWN:
            log.error(self.events.unknown, **about)
        elif outcome.state == rows.FAILED:
            log.warning(self.events.failed, **about)

    def _log_expired(self, ended: Sequence[EndedRow]) -> None:
        for row in ended:
            if row.state == rows.UNKNOWN:
                self._log_unknown(row, row.id)
        if expired := sum(row.state == rows.EXPIRED for row in ended):
            log.warning(self.events.expired, **{f"{self.noun}s": expired})

    def _log_unknown(self, row: Row | EndedRow, row_id: int) -> None:
        with correlation.bound(row.correlation_id):
            about = {self.noun: row_id, "phase": row.phase, "reply": row.last_reply, "worker": row.claimed_by}
            log.error(self.events.unknown, **about)
