"""send_due: everything that is due, sent by this process.

1. Take back what dead workers had claimed; what they were sending becomes `unknown`.
2. Claim a batch. 3. A courier delivers one e-mail after the other, over one connection. Where much is due, two do.
4. Where one e-mail takes longer than others should wait for, a further courier goes on with the next ones, over a
   connection of its own.
5. When nothing is due, and no courier is busy any more, that is all.
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
from workers.orders import courier as couriers
from workers.orders import ledger, letter
from workers.orders.courier import Courier
from workers.orders.models import ShippedEmail, State
from workers.orders.transport import Unreachable, server_name

BATCH = 50
ORDINARY_COURIERS = 2  # where there is much to do: while one waits for an answer, the other gets on
MOST_COURIERS = 10  # connections of one process, in the worst case
LOOK_EVERY_S = 0.1

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class SendReport:
    """What became of the e-mails that one call took."""

    sent: int = 0
    postponed: int = 0  # refused for now: tried again later
    failed: int = 0
    unknown: int = 0  # those of this call, and those that dead workers left behind
    given_back: int = 0  # not tried
    stopped_because: str = ""  # where e-mails that are due were not tried
    is_out_of_time: bool = False  # more may be due


def send_due(limit: int | None = None, *, at_most_s: float | None = None) -> SendReport:
    """Send the shipped e-mails that are due, at most `limit`; after `at_most_s` seconds leave the rest to others.

    (Not while an e-mail hangs: then it cannot end, and goes on with others.)

    Each is submitted to the mail server at most once, however many processes call this, and whatever is killed; but
    for those that a person orders to be sent again. What is refused for now is tried again later by later calls.
    Where the mail server cannot be reached, all go back as if they had not been tried, and it is left alone for a
    while.

    Raises RuntimeError inside a transaction (a claim must be committed), and ValueError for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    ledger.take_back_abandoned()
    given_up = ledger.give_up_on_silent()
    try:
        letter.sender()
    except letter.CannotBeWritten as error:  # no e-mail is to blame
        log.error("shipped_emails_cannot_be_sent", error=str(error))  # noqa: TRY400  the traceback says no more
        return SendReport(unknown=given_up, stopped_because=f"DEFAULT_FROM_EMAIL is no good: {error}")
    if wait_s := couriers.circuit.open_for_s(time.monotonic()):
        because = f"The mail server {server_name()} could not be reached lately: it is tried again in {wait_s:.0f} s."
        return SendReport(unknown=given_up, stopped_because=because)
    return _Round(limit, at_most_s).run(given_up)


class _Round:
    """One call of send_due: what is claimed and not delivered yet, and the couriers who share it."""

    def __init__(self, limit: int | None, at_most_s: float | None) -> None:
        self._tokens: list[UUID] = []
        self._left = limit
        self._end_at = None if at_most_s is None else time.monotonic() + at_most_s
        self._lock = Lock()  # of all that follows
        self._waiting: deque[tuple[ShippedEmail, float]] = deque()  # and when it was claimed
        self._couriers: list[Courier] = []
        self._ended: Counter[str] = Counter()
        self._are_many = False  # more than a batch
        self._is_one_enough = False  # for the mail server, which has refused a further connection
        self._given_back = 0
        self._stopped_because = ""
        self._is_out_of_time = False

    def run(self, unknown: int) -> SendReport:
        """Deliver what is due. `unknown` are those that were found before."""
        try:
            self._claim()
            if self._waiting:
                with ThreadPoolExecutor(MOST_COURIERS) as pool:
                    self._watch_over_couriers(pool)
        finally:
            self._given_back += ledger.give_back(self._tokens)
        return SendReport(
            sent=self._ended[State.SENT],
            postponed=self._ended[State.PENDING],
            failed=self._ended[State.FAILED],
            unknown=self._ended[State.UNKNOWN] + unknown,
            given_back=self._given_back,
            stopped_because=self._stopped_because,
            is_out_of_time=self._is_out_of_time,
        )

    def _watch_over_couriers(self, pool: ThreadPoolExecutor) -> None:
        """Send for a courier, and for a further one whenever it is needed, until all have left.

        Raises what went wrong with one. An interrupt has each finish the e-mail that it has in hand.
        """
        at_work = {pool.submit(self._serve)}
        try:
            while at_work:
                left, at_work = wait(at_work, LOOK_EVERY_S, FIRST_COMPLETED)
                for courier in left:
                    courier.result()
                if at_work and len(at_work) < MOST_COURIERS and self._is_another_needed(len(at_work)):
                    at_work.add(pool.submit(self._serve))
                if self._stopped_because:
                    self._give_back_waiting()  # now: a courier may have to wait for its answer for long
        except BaseException:
            self._stop("It was interrupted.")
            raise

    def _is_another_needed(self, couriers: int) -> bool:
        """Tell whether there are many e-mails for one courier, or all have stalled and some could be delivered."""
        with self._lock:
            if self._stopped_because:
                return False
            if couriers < ORDINARY_COURIERS and self._are_many and self._ended and not self._is_one_enough:
                return True
            if not all(courier.is_stalled for courier in self._couriers):
                return False
            if not self._waiting:
                self._claim()
            return bool(self._waiting)

    def _give_back_waiting(self) -> None:
        with self._lock:
            waiting = [email.pk for email, _ in self._waiting]
            self._waiting.clear()
        if waiting:
            self._given_back += ledger.give_back(self._tokens, waiting)

    def _serve(self) -> None:
        """Be a courier until there is nothing left to do."""
        courier, in_hand = Courier(), None
        with self._lock:
            self._couriers.append(courier)
        try:
            while in_hand := self._next():
                if outcome := courier.deliver(*in_hand):
                    with self._lock:
                        self._ended[outcome.state] += 1
        except SlotTooFar as error:
            self._stop(f"{error} That is by WEIR_MAIL_RATE, or its lane is paused: `manage.py sites` shows it.")
        except Unreachable as error:
            log.warning("mail_server_unreachable", error=str(error))
            if not in_hand or not self._do_others_go_on(courier, in_hand):
                self._stop(f"The mail server {server_name()} cannot be reached ({error}): check the EMAIL_* settings.")
        finally:
            with self._lock:
                self._couriers.remove(courier)
            courier.close()
            connections.close_all()  # those of this thread

    def _do_others_go_on(self, courier: Courier, in_hand: tuple[ShippedEmail, float]) -> bool:
        """Leave the e-mail to couriers who are connected, if there are: some servers allow one connection only."""
        with self._lock:
            self._waiting.appendleft(in_hand)
            self._is_one_enough = True
            return any(not other.is_stalled for other in self._couriers if other is not courier)

    def _stop(self, because: str) -> None:
        with self._lock:
            self._stopped_because = self._stopped_because or because

    def _next(self) -> tuple[ShippedEmail, float] | None:
        """Return the e-mail to deliver next; None where there is nothing left to do."""
        with self._lock:
            if self._stopped_because or self._is_time_over():
                return None
            if not self._waiting:
                self._claim()
            return self._waiting.popleft() if self._waiting else None

    def _is_time_over(self) -> bool:
        """Tell whether to leave the rest to others; not while an e-mail keeps us, which must not keep the rest."""
        self._is_out_of_time = (
            self._end_at is not None
            and time.monotonic() > self._end_at
            and not any(courier.is_stalled for courier in self._couriers)
        )
        return self._is_out_of_time

    def _claim(self) -> None:
        """Claim a batch; where e-mails are paced only one, as it may have to wait for its turn."""
        batch = 1 if settings.WEIR_MAIL_RATE else BATCH
        if self._left is not None:
            batch = min(batch, self._left)
        if not batch:
            return
        claimed_at = time.monotonic()  # before, so that it is never too late
        self._tokens.append(uuid4())  # before, so that whatever is claimed is given back
        claimed = ledger.claim(batch, self._tokens[-1])
        if not claimed:
            self._tokens.pop()
        self._waiting.extend((email, claimed_at) for email in claimed)
        self._are_many = len(claimed) == BATCH
        if self._left is not None:
            self._left -= len(claimed)
