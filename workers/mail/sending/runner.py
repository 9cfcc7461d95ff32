"""Sends everything that is due, in this process (`send_due`). One call is a round.

1. Take back the e-mails that dead workers had claimed; those that they were sending become `unknown`.
2. Claim a batch (source.py).
3. A sender delivers one e-mail after the other, over one connection (sender.py). If much is due, there are two senders.
4. If all senders are busy with e-mails that take long, a further sender goes on with the next e-mails, over a
   connection of its own (policy.py).
5. The round ends when nothing is due and no sender is busy.

Kinds that use other relays form another stream. Each stream has its own claims and senders (crews.py); all streams work
at the same time.
"""

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock

from django.db import connections

from weir.logs.loggers import get_logger
from weir.postgres import own_commits
from weir.postgres.timeline import gate
from weir.ratelimit.slots import SlotTooFar
from weir.workers.mail import addresses, renderings
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import crews, holds, leases, policy
from weir.workers.mail.sending.crews import Crew
from weir.workers.mail.sending.policy import MOST_SENDERS
from weir.workers.mail.sending.sender import Sender
from weir.workers.mail.sending.source import ClaimAllowance, Held
from weir.workers.mail.transports import relays as configured
from weir.workers.mail.transports.relays import MailStream

LOOK_EVERY_S = 0.1

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class SendReport:
    """What became of the e-mails that one call took."""

    sent: int = 0
    postponed: int = 0  # refused for now, and tried again later
    failed: int = 0
    suppressed: int = 0  # to recipients on the suppression list
    expired: int = 0  # their time was over before they were tried
    unknown: int = 0  # those of this call, and those that dead workers were sending
    given_back: int = 0  # not tried, or refused without being to blame
    stopped_because: str = ""  # why due e-mails were not tried; empty if all were
    is_out_of_time: bool = False  # more may be due


def send_due(limit: int | None = None, *, at_most_s: float | None = None) -> SendReport:
    """Send the e-mails that are due, at most `limit`; after `at_most_s` seconds leave the rest to other calls.

    (While a relay keeps an e-mail waiting, the call cannot end, and goes on with other e-mails instead.)

    Each e-mail is submitted to a relay at most once, however many processes call this, and whatever is killed, unless
    an operator resends it. Later calls try e-mails again that were refused for now. If no relay can be reached, all
    e-mails are given back as if they had not been tried, and the relays are left alone for a while.

    Raises TransactionManagementError inside a transaction (a claim must be committed), and ValueError for a limit
    below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    own_commits.refuse_transaction("send_due()")
    gate.require()  # before leases are judged by PostgreSQL's clock
    leases.take_back_abandoned()
    holds.expire()
    given_up = leases.end_silent()
    try:
        addresses.from_address()
    except addresses.CannotBeWritten as error:  # not the fault of any e-mail
        log.error("emails_cannot_be_sent", error=str(error))  # noqa: TRY400  the traceback says no more
        return SendReport(unknown=given_up, stopped_because=f"DEFAULT_FROM_EMAIL cannot be used: {error}")
    if fault := renderings.envelope_fault():
        log.error("emails_cannot_be_sent", error=fault)
        return SendReport(unknown=given_up, stopped_because=f"WEIR_MAIL_ENVELOPE_SENDER cannot be used: {fault}")
    return _Round(configured.streams(), limit, at_most_s).run(given_up)


class _Round:
    """One call of send_due: a crew for each stream."""

    def __init__(self, streams: Sequence[MailStream], limit: int | None, at_most_s: float | None) -> None:
        self._end_at = None if at_most_s is None else time.monotonic() + at_most_s
        self._lock = Lock()  # guards the crews and everything in them
        allowed = ClaimAllowance(limit)
        self._crews = [Crew(stream, allowed) for stream in streams]

    def run(self, unknown: int) -> SendReport:
        """Deliver what is due. `unknown` is the number of e-mails that became unknown before the round began."""
        try:
            if begun := [crew for crew in self._crews if crew.begins()]:
                with ThreadPoolExecutor(MOST_SENDERS * len(self._crews)) as pool:
                    self._watch_over_senders(pool, begun)
        finally:
            for crew in self._crews:
                crew.given_back += crew.source.give_back_all()
        ended = sum((crew.ended for crew in self._crews), Counter[str]())
        return SendReport(
            sent=ended[EmailState.SENT.value],
            postponed=ended[EmailState.PENDING.value],
            failed=ended[EmailState.FAILED.value],
            suppressed=ended[EmailState.SUPPRESSED.value],
            expired=ended[EmailState.EXPIRED.value],
            unknown=ended[EmailState.UNKNOWN.value] + unknown,
            given_back=sum(crew.given_back for crew in self._crews),
            stopped_because=" ".join(filter(None, (crew.why_stopped() for crew in self._crews))),
            is_out_of_time=any(crew.is_out_of_time for crew in self._crews),
        )

    def _watch_over_senders(self, pool: ThreadPoolExecutor, begun: Sequence[Crew]) -> None:
        """Start one sender of each crew, and further senders whenever they are needed, until all have ended.

        Passes on the error of a sender. After an interrupt, each sender finishes the e-mail that it has in hand.
        """
        at_work = {pool.submit(self._serve, crew): crew for crew in begun}
        try:
            while at_work:
                ended, _ = wait(at_work, LOOK_EVERY_S, FIRST_COMPLETED)
                for sender in ended:
                    del at_work[sender]
                    sender.result()
                with self._lock:
                    needed = self._look_after(Counter(at_work.values()))
                for crew in needed:
                    at_work[pool.submit(self._serve, crew)] = crew
        except BaseException:
            for crew in self._crews:
                self._stop(crew, "It was interrupted.")
            raise

    def _look_after(self, at_work: Counter[Crew]) -> list[Crew]:
        """Return the crews that need another sender. `at_work` has the number of senders of each crew."""
        needed: list[Crew] = []
        for crew in self._crews:
            if self._is_another_needed(crew, at_work, at_work.total() + len(needed)):
                needed.append(crew)
        for crew in self._crews:
            if crew.stopped_because:  # give back now, because a sender may wait long for its answer
                crew.given_back += crew.source.give_back_waiting()
            crew.source.renew()
        return needed

    def _is_another_needed(self, crew: Crew, at_work: Counter[Crew], of_all: int) -> bool:
        if at_work[crew]:
            return crew.needs_another(at_work[crew], of_all)
        return bool(at_work) and not self._is_over(crew) and crew.is_rested() and crew.begins()

    def _serve(self, crew: Crew) -> None:
        """Run a sender until there is nothing left to do."""
        sender, held = Sender(crew.relays), None
        with self._lock:
            crew.senders.append(sender)
        try:
            while held := self._next(crew):
                delivery = sender.deliver(held)
                with self._lock:
                    if delivery.outcome:
                        crew.count(delivery.outcome)
                    if delivery.is_held:
                        crew.source.put_back(held)
                    goes_on = delivery.unreachable is None or crew.goes_on_without(sender)
                held = None  # an e-mail may be large
                if delivery.unreachable:
                    if not goes_on:
                        self._stop(crew, crews.in_words(crew.relays, delivery.unreachable))
                    break
        except SlotTooFar as error:
            self._leave(crew, held)
            self._stop(crew, f"{error} That is by WEIR_MAIL_RATE, or its site is paused: `manage.py sites` shows it.")
        finally:
            with self._lock:
                crew.senders.remove(sender)
                crew.rests()
            sender.close()
            connections.close_all()  # this thread's connections

    def _leave(self, crew: Crew, held: Held | None) -> None:
        """Put back the e-mail in hand, so that it is given back now: other crews may keep this round going for long."""
        with self._lock:
            if held:
                crew.source.put_back(held)

    def _stop(self, crew: Crew, because: str) -> None:
        with self._lock:
            crew.stopped_because = crew.stopped_because or because

    def _next(self, crew: Crew) -> Held | None:
        """Return the e-mail to deliver next; None if nothing is left to do, or other senders have enough in hand."""
        with self._lock:
            if crew.stopped_because or crew.in_hand() > policy.MOST_IN_HAND:
                return None
            crew.is_out_of_time = self._is_over(crew)
            return None if crew.is_out_of_time else crew.source.next()

    def _is_over(self, crew: Crew) -> bool:
        """Return whether the crew leaves the rest to other calls; not while another crew keeps this call going."""
        end_at = self._end_at
        late = end_at is not None and any(
            sender.is_late(end_at) for other in self._crews if other is not crew for sender in other.senders
        )
        return policy.is_over(now=time.monotonic(), end_at=end_at, stalled=crew.stalled() + late)
