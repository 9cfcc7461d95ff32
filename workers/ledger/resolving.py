"""Records what people find out about an effect, and changes the effect accordingly."""

from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar

from django.db import transaction
from django.db.models.functions import Now

from weir.workers.audit import acting
from weir.workers.ledger import rows
from weir.workers.ledger.names import LedgerNames
from weir.workers.ledger.rows import LedgerRow, Row

Act = TypeVar("Act", bound=str)


class CannotBeResolved(ValueError):
    """The effect's state does not allow that; the message names the state."""


class Resolver(Generic[Row, Act]):
    """Acts on what people say about the effects in one table. A room derives a class that says what is its own."""

    title = "Effect"  # as a sentence begins
    allowed: Mapping[Act, Collection[str]]  # the states in which an effect must be for each act
    can: Mapping[Act, str]  # how a refusal continues after "only pending ones"
    unless_asked: Collection[Act] = ()  # acts that are refused while the other side may be asked

    def __init__(self, model: type[Row], names: LedgerNames) -> None:
        self._rows: Any = model._default_manager  # noqa: SLF001  documented, in spite of its name
        self._names = names

    def write_down(self, row: Row, act: Act, who: str, why: str, **own: Any) -> None:
        """Store who said what, and what was known of the effect until now."""
        raise NotImplementedError

    def apply(self, row: Row, act: Act, why: str, **own: Any) -> None:
        """Change the row, by `end_claim` and `repeat`; whoever called `resolve` saves it."""
        raise NotImplementedError

    def wake(self) -> None:
        """Tell a worker of an effect that is pending again."""

    def other_side(self, row: Row) -> str:
        """Return the name of the other side."""
        return str(row.kind)

    def resolve(self, row_id: int, act: Act, who: str, why: str, *, wakes: bool = True, **own: Any) -> Row:
        """Act on what a person found out about an effect; record who did what, and why, in the same transaction.

        A worker is told of an effect that is pending again, unless the caller tells one itself (`wakes=False`).

        Of two calls at the same time, the second waits, and finds the effect resolved. Raises CannotBeResolved,
        ValueError if `who` or `why` is blank, and the model's DoesNotExist.
        """
        if not who.strip() or not why.strip():
            raise ValueError("Say who resolves it, and why.")
        with transaction.atomic():
            row: Row = self._rows.select_for_update().get(pk=row_id)
            if refused := self.refusal(row, act):
                raise CannotBeResolved(refused)
            self.write_down(row, act, who, why, **own)
            self.apply(row, act, why, **own)
            row.save()
            if wakes and row.state == rows.PENDING:
                transaction.on_commit(self.wake, robust=True)
        row.refresh_from_db()
        return row

    def refusal(self, row: Row, act: Act) -> str:
        """Return why the effect cannot be resolved in this way; an empty string if it can."""
        if row.state not in self.allowed[act]:
            allowed = " or ".join(self.allowed[act])
            return f"{self.title} {row.pk} is {row.state}: only {allowed} ones {self.can[act]}."
        if act in self.unless_asked and row.ask_until is not None:
            return (
                f"{self.title} {row.pk} may have been accepted: {self.other_side(row)} is asked what became of it "
                f"until {row.ask_until:%Y-%m-%d %H:%M} UTC. Wait for that."
            )
        return ""

    def end_claim(self, row: Row, state: str) -> None:
        """Put the row into this state, and end its claim: a late answer of its worker does not count any more."""
        row.state = state
        row.ended_at = None if state == rows.PENDING else Now()
        row.claim_token = row.claimed_until = row.ask_until = None
        setattr(row, self._names.begun_at, None)
        row.earlier_reply = ""

    def repeat(self, row: Row, *, may_be_late: bool) -> None:
        """Make the row pending, with all attempts ahead of it.

        An effect that was not tried yet keeps its planned time. One that has ended does not expire any more, if it
        `may_be_late`.
        """
        if row.state != rows.PENDING or row.attempts:
            row.next_attempt_at = Now()
        if row.state != rows.PENDING and may_be_late:
            row.expires_at = None
        row.attempts = 0
        setattr(row, self._names.done_at, None)
        self.end_claim(row, rows.PENDING)


def version_of(row: LedgerRow) -> str:
    """Return a version of an effect that changes whenever it ends, in whatever state, or is resolved."""
    resolutions: Any = row.resolutions  # type: ignore[attr-defined]  # of each room
    last = resolutions.order_by("-pk").values_list("pk", flat=True).first()
    return acting.version({"ended_at": row.ended_at, "resolution": last})
