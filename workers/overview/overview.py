"""The overview, which operators look at first: how much there is of everything, and how old the oldest is.

One query counts, through indexes and up to MOST (sql/overview.sql). Other queries read the processes, and the sessions
that hold locks for which others wait. The broker, which may be away, is asked how many messages wait, and Redis, which
has the counters, whether it answers.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db import transaction

from weir.postgres import planner, weir_apps
from weir.postgres.statements import Statement
from weir.ratelimit.models import PAUSED_FOREVER
from weir.redis_link import calls
from weir.workers import broker_link, schedule
from weir.workers.overview import locks, schema
from weir.workers.processes.status import ProcessStatus, processes

MOST: Final = 10_000  # no number is counted beyond this
HEADS: Final = 1_000  # how many sites have their queues read
RECOVERED_WITHIN_S: Final = 86_400.0
FAILING_LEAST: Final = 20  # e-mails that failed in an hour; a few always fail, because their addresses do not exist
FAILING_SHARE: Final = 10  # at least one in this many e-mails that ended has failed
MISSED_WITHIN_S: Final = 300.0  # the newest minute is rolled up a minute later
MISSED_LEAST: Final = 100  # slots; a killed fetcher misses a few
MISSED_SHARE: Final = 10  # at least one in this many slots was missed
FAILING_TRIES: Final = 10  # attempts of a webhook, which take a quarter of an hour
LATE_S: Final = 600.0  # an e-mail or an effect that is due for longer needs somebody
FEW: Final = 3  # how many sites, and kinds of e-mails, are named
STALLED_AFTER_S: Final = 15.0  # longer than the lease of a lost message


class Numbers(NamedTuple):
    """How much there is of everything; MOST + 1 means more. Ages are None if there is nothing."""

    now: datetime
    queued: int
    reserved: int
    running: int
    done: int  # fetches that ended so within the last hour, of the newest MOST that ended
    done_or_more: bool  # more than MOST have ended, so there may be more
    failed: int  # within the last hour, as the next
    cancelled: int
    failed_because: dict[str, int]  # the FEW most frequent causes of the newest HEADS that failed; how errors begin
    ended_per_s: float  # fetches that ended in the last minute, or of the newest MOST, a second
    oldest_due_s: float | None
    oldest_due_fetch: int | None
    sites: int  # sites with fetches to come
    paused: int  # this and the next three: how many of these sites
    backed_off: int
    resting: int  # because a quota is used up
    unreachable: int
    stalled: int  # sites at which due fetches do not start, although nothing is known to be in their way
    stalled_fetch: int | None
    stalled_sites: list[str]  # up to FEW of them, those first whose fetches have waited longest
    halted: int  # sites with due fetches that are paused until an operator resumes them
    halted_site: str | None
    halted_sites: list[str]  # as above
    uncalled: int  # fetches and batches that have ended, and named a task that a worker did not know
    uncalled_task: str | None  # the task that most of them name
    uncalled_as: str | None  # as what they name it: on_done, on_batch_done, or both
    broken_endpoints: int  # endpoints that receive no webhooks until somebody acts, or for long
    broken_endpoint: int | None  # this and the next two: the first of them, and why
    broken_endpoint_name: str | None
    broken_endpoint_error: str | None
    missed: int | None  # slots of the last minutes that passed before a fetcher took them; None if that is not many
    missed_of: int | None
    doubts: int
    trusted: bool | None  # None: reconcile has never run
    flushed_s: float | None  # since the last flush
    pending: int
    sending: int  # including those that a mailer has claimed
    claimed: int
    unknown: int
    oldest_pending_s: float | None  # since it was due; below 0 if it is not due yet
    oldest_unknown_s: float | None
    late_kinds: list[str]  # this and the next: the kinds of most e-mails that are late, and unknown, up to FEW
    unknown_kinds: list[str]
    pending_effects: int
    unknown_effects: int
    oldest_pending_effect_s: float | None  # this and the next: as of e-mails
    oldest_unknown_effect_s: float | None
    sent: int  # this and the next: of the newest MOST e-mails
    not_sent: int  # failed
    sent_hour: int  # this and the next: in the last hour; of more than MOST e-mails, as the history knows it
    failed_hour: int
    failing: int | None  # e-mails that failed in the last hour; None if that is not many
    failing_of: int | None  # e-mails that ended in the last hour
    failing_kind: str | None  # the kind that failed most often; None if these e-mails are deleted
    failing_reply: str | None
    closed_because: str | None  # why nothing is granted now; "" if all is well
    recovered_at: datetime | None  # when Weir recovered from a loss, within the last day
    recovered_because: str | None
    recovered_emails: int | None  # e-mails that became unknown

    @property
    def transmitted(self) -> int:
        """How many e-mails are being transmitted: those in the state `sending`."""
        return self.sending - self.claimed


OVERVIEW = Statement("overview", row=Numbers, commits=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """Everything that the overview shows."""

    numbers: Numbers
    processes: list[ProcessStatus]
    messages: Mapping[str, int]  # waiting messages by queue; empty if the broker is away
    broker_error: str  # "" if the broker answers
    broker_remedy: str = ""  # what to do if the broker answers, and refuses
    redis_error: str = ""  # "" if Redis answers, or no installed app needs it
    missing_migrations: int = 0
    holders: Sequence[locks.LockHolder] = ()  # holders of locks for which others wait


def count() -> Numbers:
    """Count everything, at a cost that does not grow with the tables."""
    with transaction.atomic():
        planner.in_index_order()
        bounds = {
            "most": MOST,
            "heads": HEADS,
            "failing_least": FAILING_LEAST,
            "failing_share": FAILING_SHARE,
            "missed_within": MISSED_WITHIN_S,
            "missed_least": MISSED_LEAST,
            "missed_share": MISSED_SHARE,
            "stalled_after": STALLED_AFTER_S,
            "failing_tries": FAILING_TRIES,
            "late": LATE_S,
            "few": FEW,
            "forever": PAUSED_FOREVER,
            "recovered_within": RECOVERED_WITHIN_S,
        }
        [numbers] = OVERVIEW(**bounds)
    return numbers


def overview(asking: AbstractContextManager[None] | None = None) -> Overview:
    """Look at everything. Reads only; waits at most 1.5 seconds for a broker that is away, and as long for Redis.

    Asks PostgreSQL within the context `asking`, after the others, so that no transaction in it waits for them.
    """
    messages: dict[str, int] = {}
    broker_error = broker_remedy = ""
    try:
        messages = {queue: broker_link.waiting_in(queue) for queue in schedule.queues()}
    except broker_link.BrokerUnreachable as error:
        broker_error = str(error).rstrip(".") or "it does not answer"
        broker_remedy = error.remedy
    redis_error = _redis_error()
    with asking or nullcontext():
        return Overview(
            processes=processes(),
            missing_migrations=schema.missing(),
            holders=locks.holders(after_s=locks.LONG_S),
            numbers=count(),  # comes last, because it changes how the rest of a transaction is planned
            messages=messages,
            broker_error=broker_error,
            broker_remedy=broker_remedy,
            redis_error=redis_error,
        )


def _redis_error() -> str:
    if not weir_apps.is_installed("weir.notifications"):
        return ""
    try:
        calls.ask(lambda link: link.call("PING"))
    except calls.RedisUnreachable as error:
        return str(error).rstrip(".") or "it does not answer"
    return ""
