"""Judges what logs prove about one e-mail, in a pure function.

A log proves what its lines say. The absence of a line proves something only if the log is complete, and no log can show
that it is, because missing lines cannot be seen. So the operator must vouch for a period in which the log is complete.
Evidence against that in the log itself (it begins too late, ends too early, says that lines were lost) outweighs the
operator's word.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from weir.workers.mail.evidence.coverage import EVER, LogGap
from weir.workers.mail.evidence.lives import Life
from weir.workers.mail.evidence.reading import Logs

CLOCK_ERROR = timedelta(minutes=5)  # how much the clocks of the database and of a mail server may differ, at most


class LogOutcome(StrEnum):
    """What became of an e-mail, according to the logs."""

    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not accepted"
    STILL_UNKNOWN = "still unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedAttempt:
    """An attempt to send an e-mail, whose outcome is unknown. Times are by the database's clock."""

    message_id: str  # without < and >
    relay: str  # the relay that the e-mail was sent to; empty for an attempt of an earlier release
    since: datetime
    until: datetime  # when the attempt had ended for certain


@dataclass(frozen=True, kw_only=True, slots=True)
class Vouched:
    """What the operator vouches for, because the logs cannot show it."""

    complete_from: datetime | None = None  # the logs have every line of every host from this time
    complete_until: datetime | None = None  # until this time
    clock_error: timedelta = CLOCK_ERROR
    queue_empty: bool = False  # the mail server's queue was seen empty after the last line was logged
    strange_harmless: bool = False  # a person looked at the lines not understood: they are not about e-mails of ours
    survived_crashes: bool = False  # the program that keeps the log is not part of the mail server, and did not crash
    relays: Collection[str] = ()  # the relays whose logs these are
    hosts: Collection[str] = ()  # the mail servers, as the logs name them; if empty, all mail servers in the logs


@dataclass(frozen=True, kw_only=True, slots=True)
class LogVerdict:
    """What is proven, and what proves it."""

    outcome: LogOutcome
    why: str  # a sentence, or the line of the log that proves it


def judge(attempt: LoggedAttempt, logs: Logs, vouched: Vouched) -> LogVerdict:
    """Return what the logs prove about this attempt.

    If a line shows that the e-mail was accepted, that counts, whatever else the logs have or lack.
    """
    since = attempt.since - vouched.clock_error
    lives = sorted(logs.lives.get(attempt.message_id, ()), key=_named_at)
    now = [life for life in lives if _named_at(life) >= since]
    if proof := next((life.proof for life in now if life.accepted), None):
        return LogVerdict(outcome=LogOutcome.ACCEPTED, why=proof)
    doubts = (_of_lives, _of_coverage)
    if doubt := next((why for doubt in doubts for why in doubt(attempt, logs, vouched, lives)), None):
        return LogVerdict(outcome=LogOutcome.STILL_UNKNOWN, why=doubt)
    return LogVerdict(outcome=LogOutcome.NOT_ACCEPTED, why=_why_not_accepted(attempt, vouched, now))


def _of_lives(attempt: LoggedAttempt, logs: Logs, vouched: Vouched, lives: Collection[Life]) -> Iterator[str]:
    """Yield the doubts that the lines with the e-mail's Message-ID leave."""
    since = attempt.since - vouched.clock_error
    for life in lives:
        if life.accepted:
            yield f"An earlier attempt was accepted, before this one began: {life.proof}"
        elif _named_at(life) >= since and life.unclear:
            yield f"Queue id {life.queue_id}: a line accepts it, but seems to be older than it: {life.unclear}"
        elif _named_at(life) >= since and not life.refused and not vouched.queue_empty:
            yield (
                f"Queue id {life.queue_id}: the content came in, and the log says neither that the queue has it nor "
                "that it was refused. If the queue is empty now (postqueue -p), say --queue-empty."
            )
    for mention in logs.mentions.get(attempt.message_id, ()):
        if not any(life.queue_id in mention for life in lives):
            yield f"A line has its Message-ID, and what it says of it is not understood: {mention}"


def _of_coverage(attempt: LoggedAttempt, logs: Logs, vouched: Vouched, lives: Collection[Life]) -> Iterator[str]:
    """Yield why the absence of a line proves nothing."""
    since, until = attempt.since - vouched.clock_error, attempt.until + vouched.clock_error
    found = f"The logs have {'no line that accepts it' if lives else 'no line of it'}, which proves nothing: "
    if attempt.relay and attempt.relay not in vouched.relays:
        yield f"{found}it went to {attempt.relay}, and no option says that these are its logs (--relay)."
    if vouched.complete_from is None or vouched.complete_until is None:
        yield f"{found}no option says that they are complete (--complete-from, --complete-until)."
    elif not vouched.complete_from <= since <= until <= vouched.complete_until:
        yield f"{found}they would have to be complete from {_at(since)} until {_at(until)}."
    for gap in logs.gaps:
        if gap.touches(since, until) and not _is_excused(gap, vouched):
            yield f"{found}{_missing('of any host', gap)}"
    if not vouched.hosts:
        yield from (f"{found}{why}" for why in logs.not_read)
    hosts = vouched.hosts or sorted(logs.coverage)
    if not hosts:
        yield f"{found}no line of a mail server was understood."
    for host in hosts:
        yield from (f"{found}{why}" for why in _of_host(host, logs, since, until, vouched))


def _of_host(host: str, logs: Logs, since: datetime, until: datetime, vouched: Vouched) -> Iterator[str]:
    name = host or "the mail server"
    coverage = logs.coverage.get(host)
    if coverage is None:
        yield f"no line of {name} was found."
        return
    if coverage.first > since:
        yield f"those of {name} begin at {_at(coverage.first)}, after {_at(since)}."
    if coverage.last < until:
        yield f"those of {name} end at {_at(coverage.last)}, before {_at(until)}."
    if not coverage.named.has_any(since, until):
        yield f"{name} logged no Message-ID at all from {_at(since)} until {_at(until)}."
    for gap in coverage.gaps:
        if gap.touches(since, until) and not _is_excused(gap, vouched):
            yield _missing(f"of {name}", gap)
    if coverage.discarded.has_any(since, until):
        yield f"{name} accepted e-mails and discarded them then, perhaps this one."


def _is_excused(gap: LogGap, vouched: Vouched) -> bool:
    return (gap.crash and vouched.survived_crashes) or (gap.strange and vouched.strange_harmless)


def _missing(whose: str, gap: LogGap) -> str:
    period = f"from {_at(gap.since)} until {_at(gap.until)}" if gap.since > EVER else f"until {_at(gap.until)}"
    what_to_do = ". If it is of no e-mail of yours, say --strange-lines-harmless" if gap.strange else ""
    return f"lines {whose} may be missing {period}: {gap.why.rstrip('.')}{what_to_do}."


def _why_not_accepted(attempt: LoggedAttempt, vouched: Vouched, lives: Collection[Life]) -> str:
    since, until = attempt.since - vouched.clock_error, attempt.until + vouched.clock_error
    period = f"the logs are complete from {_at(since)} until {_at(until)}"
    if proof := next((life.proof for life in lives if life.refused), None):
        return f"It was not accepted, and {period}: {proof}"
    if lives:
        return f"The content came in, the queue did not keep it, and {period}: {next(iter(lives)).line}"
    return f"It is not in the logs, and {period}."


def _named_at(life: Life) -> datetime:
    return life.named_at or life.since


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S UTC}"
