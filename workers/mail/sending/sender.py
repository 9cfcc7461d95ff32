"""A sender delivers one e-mail after the other, over connections of its own."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from django.db import Error
from django.utils import timezone

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.workers.ledger.outcomes import History, Outcome
from weir.workers.mail import suppression
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import domains, leases, outcomes
from weir.workers.mail.sending.blame import Blame
from weir.workers.mail.sending.contents import content_of
from weir.workers.mail.sending.routes import DomainWaits, RefusedLately, RelayIsGone, Route, Routes, turn
from weir.workers.mail.sending.source import Held
from weir.workers.mail.sending.tried import Tried, refusal_of_it
from weir.workers.mail.transports.base import BrokenOff, CannotTake, OutcomeUnknown, Refused, Unreachable
from weir.workers.mail.transports.relays import Relay
from weir.workers.tracing import correlation, spans

PATIENCE_S = 0.5  # how long the next e-mails wait for the e-mail that a sender is busy with

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """What became of one e-mail that a sender had in hand."""

    outcome: Outcome | None = None  # None if the claim was lost, or the e-mail was not tried
    is_held: bool = False  # whether it was not tried, and this process still holds it
    unreachable: Unreachable | None = None  # why other e-mails need not be tried either


class Sender:
    """Delivers claimed e-mails. For one thread; other threads may read `is_stalled`, `is_late` and `in_hand`."""

    def __init__(self, relays: Sequence[Relay]) -> None:
        self._routes = Routes(relays)
        self._busy_since: float | None = None
        self._delivers_since: float | None = None
        self.in_hand = 0  # bytes of the e-mail that is being delivered

    @property
    def is_stalled(self) -> bool:
        """Whether one e-mail takes longer than others should wait.

        Connecting, and waiting for a turn, do not count, because other e-mails would have to wait for them, too.
        """
        since = self._busy_since
        return since is not None and time.monotonic() - since > PATIENCE_S

    def is_late(self, before: float) -> bool:
        """Return whether the sender got its e-mail before `before`, and has had it longer than others should wait."""
        since = self._delivers_since
        return since is not None and since < before and time.monotonic() - since > PATIENCE_S

    def deliver(self, held: Held) -> Delivery:
        """Render the e-mail if it is not rendered yet, wait for its turn, submit it, and record the outcome.

        Raises slots.SlotTooFar if its turn is too far away. This process then still holds the e-mail, and other e-mails
        need not be tried.
        """
        email = held.email
        self.in_hand = email.content_size
        self._delivers_since = time.monotonic()
        with (
            correlation.bound(email.correlation_id),
            spans.span("send e-mail", _shown(email), link=email.traceparent) as span,
        ):
            try:
                delivery = self._delivered(held)
            except leases.ClaimLost as lost:
                delivery = Delivery(outcome=lost.outcome)
            finally:
                self._delivers_since, self.in_hand = None, 0
            if delivery.unreachable is not None:
                span.set_attributes({"error.type": type(delivery.unreachable).__qualname__})
            return delivery

    def _delivered(self, held: Held) -> Delivery:
        try:
            with self._busy():
                ready = content_of(held)
        except BrokenOff as error:
            ready = _failed(held.email, error)
        if isinstance(ready, Outcome):
            return _ended(held.email, ready)
        return self._by_some_route(held.email, ready, held.domain_site)

    def close(self) -> None:
        """Close the connections."""
        self._routes.close()

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._busy_since = time.monotonic()
        try:
            yield
        finally:
            self._busy_since = None

    def _by_some_route(self, email: Email, message: Message, domain_site: str) -> Delivery:
        """Submit the e-mail to the first relay that can be used, in a slot of its recipient's domain if that is paced.

        An e-mail that is refused while others may be accepted does not delay others. Nor does an e-mail that only one
        relay may get, or can take: it waits for that relay while others are sent. A slot far away delays only it.
        """
        domain_site = domain_site or domains.backed_off_since_claimed(email.recipient)
        tried = Tried()
        try:
            for route in self._routes.of(email):
                try:
                    asks = self._busy() if self._routes.asks_another(email) else nullcontext()
                    with asks, turn(route, email, domain_site):
                        tried.was_asked = True
                        with self._busy():
                            delivery = self._submit(route, email, message)
                    if delivery.unreachable is None:
                        return delivery
                    tried.note(route, delivery.unreachable)
                    return replace(delivery, unreachable=tried.stops_because)
                except DomainWaits as error:
                    again_in_s = min(error.retry_after, outcomes.LONGEST_RETRY_S)
                    retry_in_s = again_in_s * (1 + random.random())  # noqa: S311  spreads retries, protects nothing
                    return _recorded(email, outcomes.given_back(str(error), retry_in_s))
                except CannotTake as error:
                    tried.cannot, tried.goes_on = str(error), True
                except Unreachable as error:
                    tried.note(route, error)
        except RelayIsGone as error:
            return _recorded(email, outcomes.stays_unknown(str(error)))
        return self._not_taken(email, tried)

    def _not_taken(self, email: Email, tried: Tried) -> Delivery:
        """Record that no relay has taken the e-mail, and that nothing of it was transmitted."""
        failure = tried.failure
        if failure is None:
            return _recorded(email, _failed(email, Refused(tried.cannot, Phase.NOT_BEGUN, is_permanent=True)))
        if email.ask_until is not None:
            return _recorded(email, outcomes.asked_in_vain(f"{email.relay}: {failure}"))
        if tried.was_asked and tried.blame > Blame.NOBODY:
            return _recorded(email, _failed(email, refusal_of_it(failure, Phase.NOT_BEGUN, tried.blame)))
        if tried.was_asked:  # it waits behind all due e-mails, in case it is to blame
            given_back = outcomes.given_back(str(failure), tried.wait_s)
            return replace(_recorded(email, given_back), unreachable=tried.stops_because)
        if tried.goes_on:
            return _put_off(email, failure)
        return Delivery(is_held=True, unreachable=failure)

    def _submit(self, route: Route, email: Email, message: Message) -> Delivery:
        """Submit the e-mail to this relay. Raises Unreachable and CannotTake if the transmission has not begun."""
        lifetime = route.transport.key_lifetime
        has_begun = False

        def begin() -> None:
            nonlocal has_begun
            leases.begin(email, route.relay.name, lifetime)
            has_begun = True

        try:
            reply = route.transport.submit(message, begin)
        except Unreachable as error:  # the relay says that it refuses us, or leaves
            route.refused(email, error)
            if has_begun:
                return _refused_at_its_end(route, email, error)
            raise
        except (BrokenOff, OutcomeUnknown, Refused) as error:
            if isinstance(error, BrokenOff) and not has_begun and route.served:  # it broke between two e-mails
                route.served = 0
                route.connect()
                return self._submit(route, email, message)
            _note(route, email, error)
            return _recorded(email, _failed(email, error, route))
        except (CannotTake, leases.ClaimLost):
            raise
        except Exception as error:  # noqa: BLE001  a transport must not end the round, whatever it raises
            route.transport.close()
            if has_begun:
                route.lost(error)
            return _recorded(email, _unforeseen(email, error, route if has_begun else None))
        route.accepted(email)
        return _recorded(email, outcomes.accepted(reply))


def _shown(email: Email) -> dict[str, str | int]:
    """Return what traces may show of an e-mail: neither its recipient nor its text."""
    name = {correlation.KEY: email.correlation_id} if email.correlation_id else {}
    return {"weir.email": email.pk, "weir.kind": email.kind, **name}


def _refused_at_its_end(route: Route, email: Email, error: Unreachable) -> Delivery:
    """Record the outcome of an e-mail whose transmission had begun when the relay refused us: it was not accepted."""
    if email.ask_until is not None:
        return _recorded(email, outcomes.asked_in_vain(str(error)))
    if route.blame > Blame.NOBODY:
        return _recorded(email, _failed(email, refusal_of_it(error, Phase.AFTER_DOT, route.blame), route))
    return replace(_recorded(email, outcomes.given_back(str(error))), unreachable=error)


def _note(route: Route, email: Email, error: Exception) -> None:
    """Record what an error says about other e-mails: whether the relay works, and whether the domain takes no more."""
    if isinstance(error, (BrokenOff, OutcomeUnknown)):
        route.lost(error)
    if isinstance(error, Refused):
        route.works()
        if error.slows_domain:
            domains.back_off(email.recipient)


def _put_off(email: Email, error: Unreachable) -> Delivery:
    """Put the e-mail off, because it was not tried, and others may be."""
    wait_s = error.wait_s if isinstance(error, RefusedLately) else 0.0
    if email.claim_token:
        leases.put_off({email.pk: wait_s}, email.claim_token)
    return Delivery(outcome=outcomes.given_back(str(error), wait_s))


def _recorded(email: Email, outcome: Outcome) -> Delivery:
    return Delivery(outcome=outcome if leases.record(email, outcome) else None)


def _ended(email: Email, outcome: Outcome) -> Delivery:
    """Record the outcome of an e-mail that was not submitted; forget the e-mail if its recipient was forgotten.

    Such an e-mail was queued after its recipient was forgotten, or in a transaction that committed only afterwards.
    """
    delivery = _recorded(email, outcome)
    if delivery.outcome and outcome.state == EmailState.SUPPRESSED and suppression.is_forgotten(email.recipient):
        suppression.forget_ended(email.recipient, leases.FORGOTTEN_AT_ONCE)
    return delivery


def _failed(email: Email, error: Refused | BrokenOff | OutcomeUnknown, route: Route | None = None) -> Outcome:
    """Return the outcome of a failed attempt. If `route` is given, the attempt went to its relay."""
    now = timezone.now()
    asked_for = leases.asked_for(route.transport.key_lifetime) if route else None
    before = History(
        attempts=email.attempts,
        max_attempts=settings.WEIR_MAIL_MAX_ATTEMPTS,
        is_asked_again=email.ask_until is not None,
        ask_until=email.ask_until or (now + asked_for if asked_for else None),
        now=now,
        chance=random.random(),  # noqa: S311  spreads retries, protects nothing
    )
    return outcomes.of_failure(error, before)


def _unforeseen(email: Email, error: Exception, begun: Route | None) -> Outcome:
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, Error) and not begun:  # PostgreSQL failed in `begin`, so nothing was transmitted
        return outcomes.given_back(reason) if email.ask_until is None else outcomes.asked_in_vain(reason)
    log.error("mail_transport_failed", email=email.pk, exc_info=error)
    if begun:
        return _failed(email, OutcomeUnknown(reason, Phase.BEGUN), begun)
    return _failed(email, BrokenOff(reason, Phase.NOT_BEGUN))
