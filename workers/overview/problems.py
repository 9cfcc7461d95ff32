"""Everything that is wrong: a sentence for each problem, and what to do next. These functions are pure."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from django.template.defaultfilters import pluralize
from django.utils.text import Truncator

from weir.ratelimit.site_names import as_argument
from weir.workers import schedule, ticks
from weir.workers.cli.terminal import span
from weir.workers.overview.locks import LockHolder
from weir.workers.overview.overview import MOST, Overview
from weir.workers.processes import kinds
from weir.workers.processes.status import by_kind

NEEDED: Final = {  # for each kind of process: its name, and what does not happen without it
    "beat": ("beat", "nothing is called on schedule"),
    "ticks": ("worker of the queue weir.ticks", "no fetch gets a slot, and no unread number is flushed"),
    "maintenance": (
        "worker of the queue weir.maintenance",
        "no wrong unread number is found, and nothing old is deleted",
    ),
    "fetcher": ("fetcher", "no request is sent"),
    "mailer": ("mailer", "no e-mail is sent"),
    "worker": ("worker of the queue default", "no task of yours runs"),
}
LONGEST_REPLY: Final = 200  # characters of a mail server's reply
MOST_NAMED: Final = 5  # how many silent processes have a sentence of their own
LATE_S: Final = 600.0  # an e-mail that is due for longer needs a person


class PersonNeeded(NamedTuple):
    """Something that needs a person."""

    text: str  # one sentence
    next_step: str  # a command line, or words


def problems(seen: Overview) -> Iterator[PersonNeeded]:
    """Yield what needs a person; a problem that stops more comes first."""
    if seen.broker_remedy:
        text = f"The broker answers, and refuses what it is told ({seen.broker_error}): workers hear of nothing."
        yield PersonNeeded(text, seen.broker_remedy)
    elif seen.broker_error:
        text = f"The broker cannot be reached ({seen.broker_error}): workers hear of nothing."
        yield PersonNeeded(text, "start it, or correct its URL")
    yield from held_up(seen.holders)
    yield from _forgotten(seen)
    yield from _processes(seen)
    yield from _queues(seen)
    yield from _fetches(seen)
    yield from _emails(seen)


def needed() -> dict[str, tuple[str, str]]:
    """Return the kinds of processes that the installed apps need, as in NEEDED."""
    of_queues = set(map(kinds.of_queue, schedule.queues()))
    return {kind: told for kind, told in NEEDED.items() if kind == kinds.BEAT or kind in of_queues}


def shown(number: int) -> str:
    """Return the text of a number that was counted up to MOST; `10,000+` stands for more."""
    return f"{number:,}" if number <= MOST else f"{MOST:,}+"


def held_up(holders: Sequence[LockHolder]) -> Iterator[PersonNeeded]:
    """Yield a sentence for each session that holds a lock for which others wait."""
    for holder in holders:
        if not holder.pid:
            text = "A transaction that is prepared holds a lock for which others wait."
            yield PersonNeeded(text, "SELECT * FROM pg_prepared_xacts, and COMMIT or ROLLBACK PREPARED")
            continue
        what = ", ".join(filter(None, (holder.application_name, f"role {holder.role}", holder.state)))
        text = f"Process {holder.pid} of PostgreSQL ({what}) holds a lock"
        if holder.sessions:
            waits = f"{holder.sessions:,} session{pluralize(holder.sessions, ' waits,s wait')}"
            text += f" for which {waits}, the longest for {span(holder.waits_s)}"
        if holder.open_s is not None:
            text += f"; its transaction is open for {span(holder.open_s)}"
        next_step = f"end what it does there; where need be, SELECT pg_terminate_backend({holder.pid})"
        yield PersonNeeded(f"{text}.", next_step)


def _forgotten(seen: Overview) -> Iterator[PersonNeeded]:
    numbers = seen.numbers
    if numbers.closed_because:
        text = f"Nothing is granted until that is settled: {numbers.closed_because}"
        yield PersonNeeded(text, "wait; manage.py recover, if that takes longer than a minute")
    elif numbers.recovered_at:
        at = f"{numbers.recovered_at:%Y-%m-%d %H:%M:%S} UTC"
        emails = f"{numbers.recovered_emails:,} e-mail{pluralize(numbers.recovered_emails or 0)}"
        text = f"{numbers.recovered_because} Weir recovered from that at {at}; {emails} became unknown."
        yield PersonNeeded(text, "docs/operations.md, A database that forgets")


def _processes(seen: Overview) -> Iterator[PersonNeeded]:
    if not seen.processes:
        yield PersonNeeded("No process is known: nothing runs.", "make up, or what manage.py weir_processes prints")
        return
    alive = by_kind(process for process in seen.processes if process.runs)
    for kind, (name, without) in needed().items():
        if kind not in alive:
            yield PersonNeeded(f"No {name} is alive: {without}.", "manage.py processes")
    silent = [
        process
        for process in seen.processes
        if process.state == "silent" and any(kind in alive for kind in process.kinds)
    ]
    for process in silent[:MOST_NAMED]:
        yield PersonNeeded(f"{process.name} has been silent for {span(process.silent_s)}.", "manage.py processes")
    if more := len(silent[MOST_NAMED:]):
        yield PersonNeeded(f"{more:,} more process{pluralize(more, ' is,es are')} silent.", "manage.py processes")


def _queues(seen: Overview) -> Iterator[PersonNeeded]:
    limits = {schedule.FETCH: schedule.MOST_UNTAKEN, **dict.fromkeys(ticks.QUEUES, ticks.MOST_WAITING - 1)}
    for queue, messages in seen.messages.items():
        if messages > limits.get(queue, MOST):
            text = f"{messages:,} messages wait in the queue {queue}: its workers are down, or too few."
            yield PersonNeeded(text, "manage.py processes")


def _fetches(seen: Overview) -> Iterator[PersonNeeded]:
    numbers = seen.numbers
    if numbers.missed:
        text = (
            f"Fetchers are behind: of {numbers.missed_of:,} slots of the last minutes, {numbers.missed:,} passed before"
        )
        yield PersonNeeded(
            f"{text} one took them.", "start more fetchers (docs/how-to/scale-out.md), or see what slows them"
        )
    if numbers.stalled:
        sites = f"{shown(numbers.stalled)} site{pluralize(numbers.stalled)}"
        text = f"Due fetches of {sites} do not start, though their rate would allow it."
        yield PersonNeeded(text, f"manage.py fetches why {numbers.stalled_fetch}")
    if numbers.halted == 1:
        text = f"Due fetches wait until an operator resumes {numbers.halted_site}, which is paused."
        yield PersonNeeded(text, f"manage.py sites resume {as_argument(numbers.halted_site or '')}")
    elif numbers.halted:
        text = f"Due fetches of {shown(numbers.halted)} sites wait until an operator resumes these, which are paused."
        yield PersonNeeded(text, "manage.py sites list")


def _emails(seen: Overview) -> Iterator[PersonNeeded]:
    numbers = seen.numbers
    if numbers.unknown:
        emails = f"{shown(numbers.unknown)} e-mail{pluralize(numbers.unknown)}"
        text = f"{emails} may have arrived or not, the oldest for {span(numbers.oldest_unknown_s or 0)}."
        yield PersonNeeded(text, "manage.py emails list")
    if numbers.failing:
        text = f"{numbers.failing:,} of {numbers.failing_of:,} e-mails that ended in the last hour failed"
        command = "manage.py emails list --state failed"
        if numbers.failing_kind:
            reply = Truncator(" ".join((numbers.failing_reply or "").split())).chars(LONGEST_REPLY)
            text += f", most of the kind {numbers.failing_kind} with the reply: {reply}"
            command += f" --kind {shlex.quote(numbers.failing_kind)}"
        yield PersonNeeded(f"{text.rstrip('.')}.", f"{command}; when the cause is mended, manage.py emails resend")
    if (numbers.oldest_pending_s or 0) > LATE_S:
        text = f"E-mails wait for the mail server, the oldest for {span(numbers.oldest_pending_s or 0)}."
        yield PersonNeeded(text, "manage.py emails list --state pending")
