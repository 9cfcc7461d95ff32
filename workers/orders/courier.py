"""A courier: one connection to the mail server, over which one e-mail after the other is delivered."""

import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

from django.conf import settings
from django.db import DatabaseError

from ratelimit import slots
from ratelimit.throttle import throttle
from workers.orders import ledger, letter, mailers, outcomes
from workers.orders.circuit import Circuit
from workers.orders.models import Phase, ShippedEmail
from workers.orders.outcomes import Outcome

FRESH = 0.25  # of a lease: who has used up more renews it, so that the rest is enough (weir.E012)
PATIENCE_S = 0.5  # after which the next e-mails do not wait for the one that a courier is busy with
LONGEST_TURN_WAIT_S = 15.0  # well within the lease

circuit = Circuit(most_failures=3, first_s=5.0, longest_s=60.0)  # of this process


class Courier:
    """Delivers e-mails that were claimed. For one thread; others may ask whether it has stalled."""

    def __init__(self) -> None:
        self._mailer = mailers.mailer()
        self._served = 0  # over this connection
        self._busy_since: float | None = None

    @property
    def is_stalled(self) -> bool:
        """Whether one e-mail takes longer than others should wait; to connect, and to await a turn, is for all."""
        since = self._busy_since
        return since is not None and time.monotonic() - since > PATIENCE_S

    def deliver(self, email: ShippedEmail, claimed_at: float) -> Outcome | None:
        """Write the e-mail, wait for its turn, submit it, and record what came of it; None if the claim was lost.

        `claimed_at` is of time.monotonic().

        Raises mailers.Unreachable and slots.SlotTooFar where it was not begun, and others need not be tried either.
        """
        with self._busy():
            try:
                written = letter.write(email)
            except letter.CannotBeWritten as error:
                outcome = outcomes.cannot_be_written(str(error))
                ledger.record(email, outcome)
                return outcome
        self._connect()
        with _turn(), self._busy():
            submitted = self._submit(email, written, claimed_at)
            if submitted is not None:
                ledger.record(email, submitted)
        return submitted

    def close(self) -> None:
        """Close the connection."""
        self._mailer.close()

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._busy_since = time.monotonic()
        try:
            yield
        finally:
            self._busy_since = None

    def _connect(self) -> None:
        """Connect, if that is not done yet, and if the circuit lets us."""
        if not circuit.enter(time.monotonic()):
            raise mailers.Unreachable("It could not be reached lately, and is left alone for a while.")
        try:
            if self._mailer.connect():
                self._served = 0
        except mailers.Unreachable:
            circuit.failed(time.monotonic())
            raise
        circuit.succeeded()

    def _submit(self, email: ShippedEmail, written: letter.Letter, claimed_at: float) -> Outcome | None:
        try:
            if time.monotonic() - claimed_at > FRESH * settings.WEIR_MAIL_LEASE:
                ledger.renew(email)
            reply = self._mailer.submit(written, lambda: ledger.begin(email))
        except mailers.BrokenOff as error:
            if error.phase == Phase.NOT_BEGUN and self._served:  # a server may end a connection between two e-mails
                self._served = 0
                self._connect()
                return self._submit(email, written, claimed_at)
            return _failed(email, error)
        except (mailers.Refused, mailers.NobodyKnows) as error:
            return _failed(email, error)
        except mailers.Unreachable:  # asks for a login that we do not have
            circuit.failed(time.monotonic())
            raise
        except ledger.ClaimLost:
            return None
        except DatabaseError as error:  # from renew or begin, so it is not transmitted
            return outcomes.given_back(f"PostgreSQL: {error}")
        self._served += 1
        return outcomes.accepted(reply)


def _failed(email: ShippedEmail, error: mailers.Refused | mailers.BrokenOff | mailers.NobodyKnows) -> Outcome:
    return outcomes.of_failure(
        error,
        attempts=email.attempts,
        max_attempts=settings.WEIR_MAIL_MAX_ATTEMPTS,
        chance=random.random(),  # noqa: S311  spreads retries, protects nothing
    )


def _turn() -> AbstractContextManager[object]:
    """Return what waits until the mail server's rate allows one more e-mail. Raises slots.SlotTooFar on entering."""
    rate = settings.WEIR_MAIL_RATE
    return throttle(lane(rate), LONGEST_TURN_WAIT_S) if rate else nullcontext()


@cache
def lane(rate: str) -> str:
    """Return the name of the mail server's lane, and bring it to this rate, once in a process."""
    name = mailers.server_name()
    slots.set_rate(name, rate)
    return name
