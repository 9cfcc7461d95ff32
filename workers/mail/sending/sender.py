"""A sender: one connection to the mail server, over which one e-mail after the other is delivered."""

import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import structlog
from django.conf import settings
from django.db import DatabaseError

from ratelimit import site_settings
from ratelimit.throttle import throttle
from workers.mail import rendering
from workers.mail.kinds import Draft
from workers.mail.message import Message
from workers.mail.models import Email, State
from workers.mail.phases import Phase
from workers.mail.sending import leases, outcomes
from workers.mail.sending.circuit_breaker import CircuitBreaker
from workers.mail.sending.outcomes import Outcome
from workers.mail.transports import relays
from workers.mail.transports.base import BrokenOff, OutcomeUnknown, Refused, Unreachable

FRESH = 0.25  # of a lease: when more has passed it is renewed, so that the rest is enough (weir.E012)
PATIENCE_S = 0.5  # after which the next e-mails do not wait for the one that a sender is busy with
LONGEST_TURN_WAIT_S = 15.0

log = structlog.get_logger(__name__)
circuit_breaker = CircuitBreaker(most_failures=3, first_s=5.0, longest_s=60.0)  # of this process


class Sender:
    """Delivers e-mails that were claimed. For one thread; other threads may ask whether it has stalled."""

    def __init__(self) -> None:
        self._transport = relays.new()
        self._served = 0  # e-mails over this connection
        self._busy_since: float | None = None

    @property
    def is_stalled(self) -> bool:
        """Whether one e-mail takes longer than others should wait. Connecting and awaiting a turn concern them all."""
        since = self._busy_since
        return since is not None and time.monotonic() - since > PATIENCE_S

    def deliver(self, email: Email, claimed_at: float, draft: Draft | None = None) -> Outcome | None:
        """Write the e-mail, wait for its turn, submit it, and record the outcome; None if the claim was lost.

        `claimed_at` is of time.monotonic(). Raises base.Unreachable and slots.SlotTooFar if it was not begun, and
        others need not be tried over this connection either.
        """
        with self._busy():
            try:
                written = rendering.write(email, draft)
            except rendering.CannotBeWritten as error:
                return _recorded(email, outcomes.cannot_be_written(str(error)))
            except DatabaseError as error:  # of a template
                return _recorded(email, _failed(email, BrokenOff(f"PostgreSQL: {error}", Phase.NOT_BEGUN)))
        self._connect()
        try:
            _keep(email, claimed_at)
            with _turn(), self._busy():
                return _recorded(email, self._submit(email, written, claimed_at))
        except leases.ClaimLost:
            return None

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._busy_since = time.monotonic()
        try:
            yield
        finally:
            self._busy_since = None

    def _connect(self) -> None:
        """Connect, unless there is a connection. Raises Unreachable, also while the circuit breaker is open."""
        if self._transport.is_connected:
            return
        if not circuit_breaker.enter(time.monotonic()):
            raise Unreachable("not lately")
        self._served = 0
        try:
            self._transport.connect()
        except Unreachable:
            circuit_breaker.failed(time.monotonic())
            raise

    def _submit(self, email: Email, written: Message, claimed_at: float) -> Outcome:
        has_begun = False

        def begin() -> None:
            nonlocal has_begun
            leases.begin(email)
            has_begun = True

        try:
            _keep(email, claimed_at)
            reply = self._transport.submit(written, begin)
        except BrokenOff as error:
            if error.phase == Phase.NOT_BEGUN and self._served:  # a server may end a connection between two e-mails
                self._served = 0
                self._connect()
                return self._submit(email, written, claimed_at)
            return _failed(email, error)
        except OutcomeUnknown as error:
            return _failed(email, error)
        except Refused as error:
            circuit_breaker.succeeded()  # the server talks to us
            return _failed(email, error)
        except Unreachable as error:  # the server refuses us, or leaves, whatever the e-mail
            circuit_breaker.failed(time.monotonic())
            leases.record(email, outcomes.given_back(str(error)))  # behind all that is due, and also if it had begun
            email.state = State.PENDING
            raise
        except leases.ClaimLost:
            raise
        except Exception as error:  # noqa: BLE001  a transport must not end the round, whatever it raises
            self._transport.close()
            return _unforeseen(email, error, has_begun=has_begun)
        circuit_breaker.succeeded()
        self._served += 1
        return outcomes.accepted(reply.reply)


def _keep(email: Email, claimed_at: float) -> None:
    """Renew the lease, if so much of it has passed that the rest may not be enough. Raises ClaimLost."""
    if time.monotonic() - claimed_at > FRESH * settings.WEIR_MAIL_LEASE:
        leases.renew(email)


def _recorded(email: Email, outcome: Outcome) -> Outcome | None:
    return outcome if leases.record(email, outcome) else None


def _failed(email: Email, error: Refused | BrokenOff | OutcomeUnknown) -> Outcome:
    return outcomes.of_failure(
        error,
        attempts=email.attempts,
        max_attempts=settings.WEIR_MAIL_MAX_ATTEMPTS,
        chance=random.random(),  # noqa: S311  spreads retries, protects nothing
    )


def _unforeseen(email: Email, error: Exception, *, has_begun: bool) -> Outcome:
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, DatabaseError) and not has_begun:  # from renew or begin, so it is not transmitted
        return outcomes.given_back(reason)
    log.error("mail_transport_failed", email=email.pk, exc_info=error)
    if has_begun:
        return _failed(email, OutcomeUnknown(reason, Phase.BEGUN))
    return _failed(email, BrokenOff(reason, Phase.NOT_BEGUN))


def _turn() -> AbstractContextManager[object]:
    """Return what waits until the mail server's rate allows one more e-mail. Raises slots.SlotTooFar on entering."""
    rate = settings.WEIR_MAIL_RATE
    longest_wait_s = min(LONGEST_TURN_WAIT_S, FRESH * settings.WEIR_MAIL_LEASE)
    return throttle(site(rate), longest_wait_s) if rate else nullcontext()


@cache
def site(rate: str) -> str:
    """Return the name of the mail server's site, and set this rate for it, once in a process."""
    name = relays.server_name()
    site_settings.set_rate(name, rate)
    return name
