"""send_due: this process sends everything that is due.

1. Take back what dead workers had claimed; what they were sending becomes `unknown`.
2. Claim a batch (source.py).
3. A sender delivers one e-mail after the other, over one connection (sender.py). If much is due, there are two senders.
4. If all senders are busy with e-mails that take long, a further sender goes on with the next ones, over a connection
   of its own (policy.py).
5. The round ends when nothing is due and no sender is busy.
"""

import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from threading import Lock

import structlog
from django.db import connections

from postgres.timeline import gate
from ratelimit.slots import SlotTooFar
from workers.mail import addresses, renderings
from workers.mail.phases import State
from workers.mail.sending import holds, leases, policy, routes
from workers.mail.sending.policy import MOST_SENDERS, Another, Situation
from workers.mail.sending.sender import Sender
from workers.mail.sending.source import Held, Source
from workers.mail.transports import relays as configured
from workers.mail.transports.base import RelayRefuses, Unreachable
from workers.mail.transports.relays import Relay

LOOK_EVERY_S = 0.1

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class SendReport:
    """What became of the e-mails that one call took."""

    sent: int = 0
    postponed: int = 0  # refused for now: tried again later
    failed: int = 0
    suppressed: int = 0  # to recipients on the suppression list
    expired: int = 0  # their time was over before they were tried
    unknown: int = 0  # those of this call, and those that dead workers left behind
    given_back: int = 0  # not tried, or refused though they are not to blame
    stopped_because: str = ""  # set if e-mails that are due were not tried
    is_out_of_time: bool = False  # more may be due


def send_due(limit: int | None = None, *, at_most_s: float | None = None) -> SendReport:
    """Send the e-mails that are due, at most `limit`; after `at_most_s` seconds leave the rest to other calls.

    (While a relay keeps an e-mail waiting, the call cannot end, and goes on with others instead.)

    Each is submitted to a relay at most once, however many processes call this, and whatever is killed; but for those
    that an operator has sent again. What is refused for now is tried again by later calls. If no relay can be reached,
    all go back as if they had not been tried, and the relays are left alone for a while.

    Raises RuntimeError inside a transaction (a claim must be committed), and ValueError for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    gate.require()  # before leases are judged by PostgreSQL's clock
    leases.take_back_abandoned()
    holds.expire()
    given_up = leases.end_silent()
    try:
        addresses.from_address()
    except addresses.CannotBeWritten as error:  # no e-mail is to blame
        log.error("emails_cannot_be_sent", error=str(error))  # noqa: TRY400  the traceback says no more
        return SendReport(unknown=given_up, stopped_because=f"DEFAULT_FROM_EMAIL is no good: {error}")
    if fault := renderings.envelope_fault():
        log.error("emails_cannot_be_sent", error=fault)
        return SendReport(unknown=given_up, stopped_because=f"WEIR_MAIL_ENVELOPE_SENDER is no good: {fault}")
    relays = configured.relays()
    if wait_s := routes.open_for_s(relays):
        because = f"{_names(relays)} could not be reached lately, or refused us: again in {wait_s:.0f} s."
        return SendReport(unknown=given_up, stopped_because=because)
    return _Round(relays, limit, at_most_s).run(given_up)


class _Round:
    """One call of send_due: the senders, and the source that they share."""

    def __init__(self, relays: tuple[Relay, ...], limit: int | None, at_most_s: float | None) -> None:
        self._relays = relays
        self._end_at = None if at_most_s is None else time.monotonic() + at_most_s
        self._lock = Lock()  # of all that follows
        self._source = Source(limit, partial(routes.waits_s, relays))
        self._senders: list[Sender] = []
        self._ended: Counter[str] = Counter()
        self._is_one_enough = False
        self._given_back = 0
        self._stopped_because = ""
        self._is_out_of_time = False

    def run(self, unknown: int) -> SendReport:
        """Deliver what is due. `unknown` is how many were found before."""
        try:
            if self._source.has_next():
                with ThreadPoolExecutor(MOST_SENDERS) as pool:
                    self._watch_over_senders(pool)
        finally:
            self._given_back += self._source.give_back_all()
        return SendReport(
            sent=self._ended[State.SENT],
            postponed=self._ended[State.PENDING],
            failed=self._ended[State.FAILED],
            suppressed=self._ended[State.SUPPRESSED],
            expired=self._ended[State.EXPIRED],
            unknown=self._ended[State.UNKNOWN] + unknown,
            given_back=self._given_back,
            stopped_because=self._stopped_because or self._why_refused(),
            is_out_of_time=self._is_out_of_time,
        )

    def _watch_over_senders(self, pool: ThreadPoolExecutor) -> None:
        """Start a sender, and a further one whenever it is needed, until all have ended.

        Raises what a sender raises. After an interrupt each finishes the e-mail that it has in hand.
        """
        at_work = {pool.submit(self._serve)}
        try:
            while at_work:
                ended, at_work = wait(at_work, LOOK_EVERY_S, FIRST_COMPLETED)
                for sender in ended:
                    sender.result()
                with self._lock:
                    is_another_needed = self._is_another_needed(len(at_work))
                    if self._stopped_because:  # now: a sender may have to wait for its answer for long
                        self._given_back += self._source.give_back_waiting()
                    self._source.renew()
                if is_another_needed:
                    at_work.add(pool.submit(self._serve))
        except BaseException:
            self._stop("It was interrupted.")
            raise

    def _is_another_needed(self, at_work: int) -> bool:
        situation = Situation(
            senders=at_work,
            stalled=self._stalled(),
            are_many=self._source.are_many,
            has_ended=bool(self._ended),
            is_one_enough=self._is_one_enough,
            is_stopped=bool(self._stopped_because),
            in_hand=self._in_hand(),
        )
        another = policy.another_sender(situation)
        return another == Another.YES or (another == Another.IF_ANY_IS_DUE and self._source.has_next())

    def _stalled(self) -> int:
        return sum(sender.is_stalled for sender in self._senders)

    def _in_hand(self, but: Sender | None = None) -> int:
        return sum(sender.in_hand for sender in self._senders if sender is not but)

    def _serve(self) -> None:
        """Be a sender until there is nothing left to do."""
        sender, held = Sender(self._relays), None
        with self._lock:
            self._senders.append(sender)
        try:
            while held := self._next(sender):
                if outcome := sender.deliver(held):
                    with self._lock:
                        if outcome.state == State.PENDING and not outcome.attempts:
                            self._given_back += 1
                        else:
                            self._ended[outcome.state] += 1
                held = None  # an e-mail may be large
        except SlotTooFar as error:
            self._stop(f"{error} That is by WEIR_MAIL_RATE, or its site is paused: `manage.py sites` shows it.")
        except Unreachable as error:
            if not held or not self._do_others_go_on(sender, held):
                self._stop(_why_stopped(self._relays, error))
        finally:
            with self._lock:
                self._senders.remove(sender)
            sender.close()
            connections.close_all()  # those of this thread

    def _do_others_go_on(self, sender: Sender, held: Held) -> bool:
        """Leave the e-mail to senders that are connected, if there are: some servers allow one connection only."""
        with self._lock:
            if held.email.state == State.CLAIMED:
                self._source.put_back(held)
            else:
                self._given_back += 1
            self._is_one_enough = True
            return any(not other.is_stalled for other in self._senders if other is not sender)

    def _why_refused(self) -> str:
        said = "" if self._ended[State.SENT] else routes.all_refuse_because(self._relays)
        return said and _why_stopped(self._relays, RelayRefuses(said))

    def _stop(self, because: str) -> None:
        with self._lock:
            self._stopped_because = self._stopped_because or because

    def _next(self, sender: Sender) -> Held | None:
        """Return the e-mail to deliver next; None if there is nothing left to do, or others have enough in hand."""
        with self._lock:
            sender.in_hand = 0
            if self._stopped_because or self._in_hand(but=sender) > policy.MOST_IN_HAND:
                return None
            self._is_out_of_time = policy.is_over(now=time.monotonic(), end_at=self._end_at, stalled=self._stalled())
            return None if self._is_out_of_time else self._source.next()


def _names(relays: tuple[Relay, ...]) -> str:
    names = " and ".join(relay.name for relay in relays)
    return f"The mail server {names}" if len(relays) == 1 else f"None of the relays {names}"


def _why_stopped(relays: tuple[Relay, ...], error: Unreachable) -> str:
    if isinstance(error, (RelayRefuses, routes.RefusedLately)):
        return f"{_names(relays)} refuses us, or what is due: {error}"
    return f"{_names(relays)} cannot be reached ({error}): check the EMAIL_* settings and WEIR_MAIL_RELAYS."
