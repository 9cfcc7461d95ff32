"""send_due: this process sends everything that is due.

1. Take back what dead workers had claimed; what they were sending becomes `unknown`.
2. Claim a batch, and find what its e-mails say, in one query for each kind.
3. A sender delivers one e-mail after the other, over one connection. If much is due, there are two senders.
4. If all senders are busy with e-mails that take long, a further sender goes on with the next ones, over a connection
   of its own.
5. The round ends when nothing is due and no sender is busy.
"""

import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock
from uuid import UUID, uuid4

import structlog
from django.conf import settings
from django.db import connections

from ratelimit.slots import SlotTooFar
from workers.mail import kinds, rendering
from workers.mail.kinds import Draft
from workers.mail.models import Email, State
from workers.mail.sending import leases
from workers.mail.sending import sender as senders
from workers.mail.sending.sender import Sender
from workers.mail.transports.base import RelayRefuses, Unreachable
from workers.mail.transports.relays import server_name

BATCH = 50
ORDINARY_SENDERS = 2  # if much is due: while one waits for an answer, the other gets on
MOST_SENDERS = 10  # connections of one process, in the worst case
LOOK_EVERY_S = 0.1
InHand = tuple[Email, float, Draft | None]  # a claimed e-mail, when it was claimed, and what it says, if that was found

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class SendReport:
    """What became of the e-mails that one call took."""

    sent: int = 0
    postponed: int = 0  # refused for now: tried again later
    failed: int = 0
    unknown: int = 0  # those of this call, and those that dead workers left behind
    given_back: int = 0  # not tried
    stopped_because: str = ""  # set if e-mails that are due were not tried
    is_out_of_time: bool = False  # more may be due


def send_due(limit: int | None = None, *, at_most_s: float | None = None) -> SendReport:
    """Send the e-mails that are due, at most `limit`; after `at_most_s` seconds leave the rest to other calls.

    (While the mail server keeps an e-mail waiting, the call cannot end, and goes on with others instead.)

    Each is submitted to the mail server at most once, however many processes call this, and whatever is killed; but
    for those that an operator has sent again. What is refused for now is tried again by later calls. If the mail server
    cannot be reached, all go back as if they had not been tried, and it is left alone for a while.

    Raises RuntimeError inside a transaction (a claim must be committed), and ValueError for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    leases.take_back_abandoned()
    given_up = leases.make_silent_unknown()
    try:
        rendering.from_address()
    except rendering.CannotBeWritten as error:  # no e-mail is to blame
        log.error("emails_cannot_be_sent", error=str(error))  # noqa: TRY400  the traceback says no more
        return SendReport(unknown=given_up, stopped_because=f"DEFAULT_FROM_EMAIL is no good: {error}")
    if wait_s := senders.circuit_breaker.open_for_s(time.monotonic()):
        because = (
            f"The mail server {server_name()} could not be reached lately, or refused us: again in {wait_s:.0f} s."
        )
        return SendReport(unknown=given_up, stopped_because=because)
    return _Round(limit, at_most_s).run(given_up)


class _Round:
    """One call of send_due: what is claimed and not delivered yet, and the senders that share it."""

    def __init__(self, limit: int | None, at_most_s: float | None) -> None:
        self._tokens: list[UUID] = []
        self._left = limit
        self._end_at = None if at_most_s is None else time.monotonic() + at_most_s
        self._lock = Lock()  # of all that follows
        self._waiting: deque[InHand] = deque()
        self._senders: list[Sender] = []
        self._ended: Counter[str] = Counter()
        self._are_many = False  # more than a batch
        self._is_one_enough = False  # the mail server has refused a further connection
        self._given_back = 0
        self._stopped_because = ""
        self._is_out_of_time = False

    def run(self, unknown: int) -> SendReport:
        """Deliver what is due. `unknown` is how many were found before."""
        try:
            self._claim()
            if self._waiting:
                with ThreadPoolExecutor(MOST_SENDERS) as pool:
                    self._watch_over_senders(pool)
        finally:
            self._given_back += leases.give_back(self._tokens)
        return SendReport(
            sent=self._ended[State.SENT],
            postponed=self._ended[State.PENDING],
            failed=self._ended[State.FAILED],
            unknown=self._ended[State.UNKNOWN] + unknown,
            given_back=self._given_back,
            stopped_because=self._stopped_because,
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
                if at_work and len(at_work) < MOST_SENDERS and self._is_another_needed(len(at_work)):
                    at_work.add(pool.submit(self._serve))
                if self._stopped_because:
                    self._give_back_waiting()  # now: a sender may have to wait for its answer for long
        except BaseException:
            self._stop("It was interrupted.")
            raise

    def _is_another_needed(self, at_work: int) -> bool:
        """Tell whether there is too much for one sender, or all have stalled and some e-mail could be delivered."""
        with self._lock:
            if self._stopped_because:
                return False
            if at_work < ORDINARY_SENDERS and self._are_many and self._ended and not self._is_one_enough:
                return True
            if not all(sender.is_stalled for sender in self._senders):
                return False
            if not self._waiting:
                self._claim()
            return bool(self._waiting)

    def _give_back_waiting(self) -> None:
        with self._lock:
            waiting = [email.pk for email, *_ in self._waiting]
            self._waiting.clear()
        if waiting:
            self._given_back += leases.give_back(self._tokens, waiting)

    def _serve(self) -> None:
        """Be a sender until there is nothing left to do."""
        sender, in_hand = Sender(), None
        with self._lock:
            self._senders.append(sender)
        try:
            while in_hand := self._next():
                if outcome := sender.deliver(*in_hand):
                    with self._lock:
                        self._ended[outcome.state] += 1
        except SlotTooFar as error:
            self._stop(f"{error} That is by WEIR_MAIL_RATE, or its site is paused: `manage.py sites` shows it.")
        except Unreachable as error:
            log.warning("mail_server_unreachable", error=str(error))
            if not in_hand or not self._do_others_go_on(sender, in_hand):
                self._stop(_why_stopped(error))
        finally:
            with self._lock:
                self._senders.remove(sender)
            sender.close()
            connections.close_all()  # those of this thread

    def _do_others_go_on(self, sender: Sender, in_hand: InHand) -> bool:
        """Leave the e-mail to senders that are connected, if there are: some servers allow one connection only."""
        with self._lock:
            if in_hand[0].state == State.CLAIMED:
                self._waiting.appendleft(in_hand)
            else:
                self._given_back += 1
            self._is_one_enough = True
            return any(not other.is_stalled for other in self._senders if other is not sender)

    def _stop(self, because: str) -> None:
        with self._lock:
            self._stopped_because = self._stopped_because or because

    def _next(self) -> InHand | None:
        """Return the e-mail to deliver next; None if there is nothing left to do."""
        with self._lock:
            if self._stopped_because or self._is_time_over():
                return None
            if not self._waiting:
                self._claim()
            return self._waiting.popleft() if self._waiting else None

    def _is_time_over(self) -> bool:
        """Tell whether to leave the rest to other calls; not while a stalled sender keeps this one from ending."""
        self._is_out_of_time = (
            self._end_at is not None
            and time.monotonic() > self._end_at
            and not any(sender.is_stalled for sender in self._senders)
        )
        return self._is_out_of_time

    def _claim(self) -> None:
        """Claim a batch; if e-mails are paced only one, as it may have to wait for its turn."""
        batch = 1 if settings.WEIR_MAIL_RATE else BATCH
        if self._left is not None:
            batch = min(batch, self._left)
        if not batch:
            return
        claimed_at = time.monotonic()  # before, so that it is never too late
        self._tokens.append(uuid4())  # before, so that whatever is claimed is given back
        claimed = leases.claim(batch, self._tokens[-1])
        if not claimed:
            self._tokens.pop()
        drafts = kinds.find_all(claimed)
        self._waiting.extend((email, claimed_at, drafts.get(email.pk)) for email in claimed)
        self._are_many = len(claimed) == BATCH
        if self._left is not None:
            self._left -= len(claimed)


def _why_stopped(error: Unreachable) -> str:
    if isinstance(error, RelayRefuses):
        return f"The mail server {server_name()} refuses us, whatever the e-mail: {error}"
    return f"The mail server {server_name()} cannot be reached ({error}): check the EMAIL_* settings."
