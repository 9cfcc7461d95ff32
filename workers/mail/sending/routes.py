"""A sender's routes to relays: decides which relays an e-mail may go to, and records how the relays behave."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import cache
from threading import Lock
from typing import TypeGuard

from django.utils import timezone

from weir.conf import settings
from weir.ratelimit import site_settings, slots
from weir.ratelimit.throttle import throttle
from weir.workers.mail.models import Email
from weir.workers.mail.sending import holds, leases
from weir.workers.mail.sending.blame import Blame, Suspects
from weir.workers.mail.sending.circuit_breaker import CircuitBreaker
from weir.workers.mail.sending.refusals import WORKS_FOR_S, Refusals
from weir.workers.mail.transports import relays as configured
from weir.workers.mail.transports.base import BrokenOff, RelayRefuses, Transport, Unreachable
from weir.workers.mail.transports.relays import Relay

LONGEST_TURN_WAIT_S = 15.0
LONGEST_DOMAIN_WAIT_S = 0.2  # how long a sender waits for a slot of a recipient's domain, and so delays others
LONGEST_IDLE_S = 2.0  # how long a connection may wait for a turn; servers under load allow ten seconds or less
_breakers: dict[str, CircuitBreaker] = {}  # this process' breakers, by the relays' names; so are the next two
_refusals: dict[str, Refusals] = {}
_suspects: dict[str, Suspects] = {}
_lock = Lock()


class NotLately(Unreachable):
    """The relay could not be used lately, and is left alone for a while."""


class RefusedLately(Unreachable):
    """The relay has refused similar e-mails lately, so this e-mail is to wait for `wait_s` seconds."""

    def __init__(self, said: str, wait_s: float) -> None:
        super().__init__(said)
        self.wait_s = wait_s


class DomainWaits(Exception):
    """The next slot of the recipient's domain is too far away: the e-mail waits, and no other one does."""

    def __init__(self, error: slots.SlotTooFar) -> None:
        super().__init__(str(error))
        self.retry_after = error.retry_after


class RelayIsGone(LookupError):
    """The settings no longer name the relay that could be asked what became of the e-mail."""


def breaker(relay: str) -> CircuitBreaker:
    """Return this process' circuit breaker of the relay."""
    with _lock:
        if relay not in _breakers:
            _breakers[relay] = CircuitBreaker(most_failures=3, first_s=5.0, longest_s=60.0)
        return _breakers[relay]


def refusals(relay: str) -> Refusals:
    """Return what the relay has refused of this process' e-mails."""
    with _lock:
        return _refusals.setdefault(relay, Refusals())


def suspects(relay: str) -> Suspects:
    """Return the e-mails of this process that may be to blame for the relay's refusals."""
    with _lock:
        return _suspects.setdefault(relay, Suspects())


def forget_failures() -> None:
    """Close all circuit breakers of this process, and forget all that it knows of its relays."""
    with _lock:
        _breakers.clear()
        _refusals.clear()
        _suspects.clear()


def open_for_s(relays: Sequence[Relay]) -> float:
    """Return for how many seconds none of the relays may be tried; 0 if one may be."""
    return min(_alone_for_s(relay.name) for relay in relays)


def waits_s(relays: Sequence[Relay], email: Email) -> float:
    """Return for how many seconds the e-mail is to wait, because each relay has refused such e-mails, or is left alone.

    0 means that it may be tried. If all relays are left alone, nothing is claimed. An e-mail that may have been
    accepted waits only for its own relay.
    """
    if email.ask_until is not None:
        return 0.0
    now, is_new = time.monotonic(), not email.last_reply
    waits = [refusals(relay.name).waits_s(email.kind, _domain(email), now, is_new=is_new) for relay in relays]
    if not any(waits):
        return 0.0
    return min(max(wait_s, _alone_for_s(relay.name)) for wait_s, relay in zip(waits, relays, strict=True))


def all_refuse_because(relays: Sequence[Relay]) -> str:
    """Return a relay's last refusal if each relay has refused us or e-mails of ours, or is left alone; else ""."""
    said = {relay.name: refusals(relay.name).because for relay in relays}
    is_usable = any(not because and not _alone_for_s(name) for name, because in said.items())
    return "" if is_usable else next((because for because in reversed(said.values()) if because), "")


def _alone_for_s(relay: str) -> float:
    now = time.monotonic()
    return max(breaker(relay).open_for_s(now), refusals(relay).pause_s(now))


def _may_mean_the_email(error: Unreachable) -> TypeGuard[RelayRefuses]:
    return isinstance(error, RelayRefuses) and error.knows_sender and not error.retry_after_s


def _domain(email: Email) -> str:
    return email.recipient.rpartition("@")[2].lower()


def _was_due_before(email: Email, accepted_at: datetime | None) -> bool:
    """Return whether the e-mail was refused before, and was due again before the relay last accepted an e-mail.

    This host's clock decides. If it is wrong, an attempt too many is counted, or the e-mail waits for longer.
    """
    return bool(email.last_reply) and accepted_at is not None and email.next_attempt_at < accepted_at


class Route:
    """A way to one relay, over one connection at a time. For one thread."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.served = 0  # e-mails that were accepted over this connection
        self.blame = Blame.NOBODY  # what the e-mail that last entered pays, if the relay has refused it
        self.transport: Transport = relay.new()

    def enter(self, email: Email) -> None:
        """Raise NotLately or RefusedLately if the relay is not to be asked to take this e-mail now."""
        self.blame = Blame.NOBODY
        now = time.monotonic()
        if breaker(self.relay.name).open_for_s(now) and not self.transport.is_connected:
            raise NotLately(f"{self.relay.name} is left alone for a while")
        wait_s = refusals(self.relay.name).enter(email.kind, _domain(email), now, is_new=not email.last_reply)
        if wait_s:
            if suspects(self.relay.name).has(email.pk):  # else the relays would be asked in turns for ever
                self.blame = Blame.PERHAPS
            raise RefusedLately(refusals(self.relay.name).said, wait_s)

    def connect(self) -> None:
        """Connect, unless there is a connection. Raises Unreachable; at once while the circuit breaker is open."""
        if self.transport.is_connected:
            return
        if not breaker(self.relay.name).enter(time.monotonic()):
            raise NotLately(f"{self.relay.name} is left alone for a while")
        self.served = 0
        try:
            self.transport.connect()
        except Unreachable as error:
            self.failed(error)
            raise

    def failed(self, error: Unreachable) -> None:
        """Record that the relay cannot be used, so that this process leaves it alone, and operators see it."""
        at_least_s = error.retry_after_s if isinstance(error, RelayRefuses) else 0.0
        breaker(self.relay.name).failed(time.monotonic(), at_least_s)
        holds.note(self.relay.name, f"{'It refuses us' if isinstance(error, RelayRefuses) else 'Unreachable'}: {error}")

    def refused(self, email: Email, error: Unreachable) -> None:
        """Record that the relay refused us, or left, when it was asked to take this e-mail."""
        if not _may_mean_the_email(error):
            self.failed(error)
            return
        self.works()
        suspected, is_ours, domain = suspects(self.relay.name), True, ""
        if not email.attempts:
            suspected.forget(email.pk)  # an operator may have resent it
        if error.knows_recipient:
            domain = _domain(email)
            was_due_before = _was_due_before(email, suspected.accepted_at)
            self.blame = suspected.refused(email.pk, is_doubtful=error.is_doubtful, was_due_before=was_due_before)
            is_ours = not (error.is_doubtful and self.blame > Blame.NOBODY)
        refusals(self.relay.name).refused(email.kind, domain, str(error), time.monotonic(), is_ours=is_ours)
        accepted_at = suspected.accepted_at
        if not error.knows_recipient:
            holds.note(self.relay.name, f"It refuses e-mails of the kind {email.kind}: {error}")
        elif is_ours and (accepted_at is None or timezone.now() - accepted_at > timedelta(seconds=WORKS_FOR_S)):
            holds.note(self.relay.name, f"It refuses us, or these e-mails: {error}")

    def may_take_others(self, error: Unreachable) -> bool:
        """Return whether the relay may be tried with other e-mails although one ended with this error."""
        is_others = isinstance(error, RefusedLately) or _may_mean_the_email(error)
        return is_others and not _alone_for_s(self.relay.name)

    def lost(self, error: Exception) -> None:
        """Record that the relay broke off, or did not say what became of an e-mail.

        After some such errors in a row, the circuit breaker opens: else all other e-mails would become unknown, or lose
        an attempt.
        """
        breaker(self.relay.name).failed(time.monotonic())
        if breaker(self.relay.name).open_for_s(time.monotonic()):
            does = "breaks off e-mails" if isinstance(error, BrokenOff) else "does not say what becomes of e-mails"
            holds.note(self.relay.name, f"It {does}: {error}")

    def works(self) -> None:
        """Record that the relay answers us."""
        if breaker(self.relay.name).succeeded():
            holds.clear(self.relay.name)

    def accepted(self, email: Email) -> None:
        """Record that the relay has accepted the e-mail."""
        self.works()
        if refusals(self.relay.name).accepted(email.kind, time.monotonic()):
            holds.clear(self.relay.name)
        self.served += 1
        suspects(self.relay.name).accepted(timezone.now())


class Routes:
    """A sender's routes: those of its stream, in their order, and those to other relays that must be asked."""

    def __init__(self, relays: Sequence[Relay]) -> None:
        self._routes = [Route(relay) for relay in relays]
        self._asked: list[Route] = []

    def of(self, email: Email) -> Iterator[Route]:
        """Return the routes that the e-mail may take, the best first.

        If an earlier attempt may have been accepted, only the relay of that attempt may be asked, even if the kind uses
        other relays now. Raises RelayIsGone.
        """
        if email.ask_until is None:
            return iter(self._routes)
        same = [route for route in (*self._routes, *self._asked) if route.relay.name == email.relay]
        if not same:
            same = [Route(relay) for relay in configured.relays() if relay.name == email.relay]
            self._asked.extend(same)
        if not same:
            raise RelayIsGone(f"The settings do not name the relay {email.relay} any more, which could be asked.")
        return iter(same)

    def asks_another(self, email: Email) -> bool:
        """Return whether the e-mail must go to one relay, and that is not the first of the stream."""
        return email.ask_until is not None and email.relay != self._routes[0].relay.name

    def close(self) -> None:
        """Close all connections."""
        for route in (*self._routes, *self._asked):
            route.transport.close()


@contextmanager
def turn(route: Route, email: Email, domain_site: str = "") -> Iterator[None]:
    """Connect, and wait until the rates of the recipient's domain and of the relay allow one more e-mail.

    An e-mail that began later in its slot, because the connection was opened in it, would be closer to the next one.
    If the relay's slot is far away, the connection is opened only then: servers close idle connections.

    Raises Unreachable, DomainWaits, and slots.SlotTooFar.
    """
    route.enter(email)
    place, rate = route.relay.place, settings.WEIR_MAIL_RATE
    relay_site = site(place, rate) if rate and place else ""
    if (relay_site or domain_site) and not route.transport.is_connected:
        leases.refuse_expired(email)
        if not relay_site or slots.estimate(relay_site) < LONGEST_IDLE_S:
            route.connect()
    asked_at = time.monotonic()
    with ExitStack() as turns:
        if domain_site:
            try:
                turns.enter_context(throttle(domain_site, LONGEST_DOMAIN_WAIT_S, shares_runs=False))
            except slots.SlotTooFar as error:
                raise DomainWaits(error) from error
        if relay_site:
            turns.enter_context(throttle(relay_site, LONGEST_TURN_WAIT_S, shares_runs=False))
        if time.monotonic() - asked_at > LONGEST_IDLE_S:
            route.transport.close()
        leases.refuse_expired(email)
        route.connect()
        yield


@cache
def site(place: str, rate: str) -> str:
    """Return the name of the relay's site, after setting its rate, which happens once in a process."""
    site_settings.set_rate(place, rate)
    return place
