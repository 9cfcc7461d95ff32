import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from django.core.management.base import CommandParser
from django.db import DatabaseError, OperationalError, ProgrammingError

from weir.postgres import bounded
from weir.workers.cli import terminal
from weir.workers.cli.actions import ExactCommand
from weir.workers.cli.terminal import span
from weir.workers.overview import locks, schema
from weir.workers.overview.overview import Overview, overview
from weir.workers.overview.problems import PersonNeeded, Section, held_up, problems, shown, unmigrated
from weir.workers.processes.status import by_kind

NEEDS_A_PERSON = 1  # the exit status
LOCK_S = 2.0  # how long the command waits for a locked table


class Command(ExactCommand):
    help = (
        "Show on one screen how fetches, unread numbers, e-mails and processes do, and below it what is wrong, with "
        "what to do next. Nothing is counted beyond 10,000. "
        "Exit status: 0; 1 when something needs somebody; 2 when it was typed wrongly."
    )
    examples = ("", "--json")
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="one JSON object instead of text")

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            seen = overview(bounded.not_waiting_for_locks(LOCK_S))
        except (OperationalError, ProgrammingError) as error:
            found = [*_uncounted(error)]
            if not found:
                raise
            data: dict[str, object] = {"problems": _problems(found)}
            lines = _sentences(found)
        else:
            found = list(problems(seen))
            data, lines = _as_data(seen, found), _as_text(seen, found)
        self.stdout.write(json.dumps(data) if options["json"] else "\n".join(lines))
        if found:
            sys.exit(NEEDS_A_PERSON)


def _as_text(seen: Overview, found: Sequence[PersonNeeded]) -> Iterator[str]:
    lines = {
        "paced": _paced(seen),
        "": _sites(seen),
        "counted": _counted(seen),
        "once": _once(seen),
        "processes": ", ".join(f"{number} {kind}" for kind, number in sorted(_alive(seen).items())) or "none alive",
        "messages": ", ".join(f"{number:,} in {queue}" for queue, number in seen.messages.items()) or "not known",
    }
    yield from terminal.fields(lines)
    yield ""
    if not found:
        yield "Nothing needs you."
    yield from _sentences(found)


def _uncounted(error: DatabaseError) -> Iterator[PersonNeeded]:
    """Yield what needs somebody if nothing could be counted; nothing if the error is another one."""
    if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
        yield from _locked()
    elif isinstance(error, ProgrammingError):  # such as a column that is not there
        yield from unmigrated(schema.missing())


def _locked() -> list[PersonNeeded]:
    """Return what needs somebody if a table is locked, so that nothing can be counted: the holders of locks."""
    text = f"Nothing was counted: a table has been locked for longer than {LOCK_S:g} s."
    locked = PersonNeeded(text, "see who holds it", Section("runbooks", "WeirOldSnapshot"))
    return [locked, *held_up(locks.holders(after_s=0, exclusive=True))]


def _sentences(found: Sequence[PersonNeeded]) -> Iterator[str]:
    for problem in found:
        yield f"! {terminal.printable(problem.text)} -> {terminal.printable(problem.next_step)}"


def _paced(seen: Overview) -> str:
    of = seen.numbers
    waits = f"{shown(of.queued)} queued, {shown(of.reserved)} reserved, {shown(of.running)} running"
    ended = f"{shown(of.done)}{'+' * of.done_or_more} done, {shown(of.failed)} failed, {shown(of.cancelled)} cancelled"
    return f"{waits}; in the last hour {ended}; in the last minute {of.ended_per_s:.1f} ended a second"


def _sites(seen: Overview) -> str:
    of = seen.numbers
    oldest = (
        f"the oldest due fetch waits for {span(of.oldest_due_s)}" if of.oldest_due_s is not None else "no fetch is due"
    )
    held = f"{shown(of.paused)} paused, {shown(of.backed_off)} backed off, {shown(of.resting)} resting, "
    held += f"{shown(of.unreachable)} unreachable"
    return f"{oldest}; sites with fetches to come: {shown(of.sites)}, of these {held}"


def _counted(seen: Overview) -> str:
    of = seen.numbers
    flush = "no change has come from Redis to PostgreSQL yet"
    if of.flushed_s is not None:
        flush = f"the last changes came from Redis to PostgreSQL {span(max(0.0, of.flushed_s))} ago"
    trust = {True: "Redis is trusted", False: "rows are counted until reconcile is through", None: "never reconciled"}
    redis = "Redis cannot be reached" if seen.redis_error else trust[of.trusted]
    return f"{shown(of.doubts)} doubts, {flush}, {redis}"


def _once(seen: Overview) -> str:
    of = seen.numbers
    waits = f"{shown(of.pending)} pending, {shown(of.sending)} claimed or sending, {shown(of.unknown)} unknown"
    effects = f"effects: {shown(of.pending_effects)} pending, {shown(of.unknown_effects)} unknown"
    return f"{waits}; of the newest {of.sent:,} sent, {of.not_sent:,} failed; {effects}"


def _alive(seen: Overview) -> Counter[str]:
    return by_kind(process for process in seen.processes if process.runs)


def _as_data(seen: Overview, found: Sequence[PersonNeeded]) -> dict[str, object]:
    numbers = seen.numbers._asdict()
    return {
        **numbers,
        "now": seen.numbers.now.isoformat(),
        "alive": dict(_alive(seen)),
        "silent": [process.name for process in seen.processes if process.state == "silent"],
        "messages": dict(seen.messages),
        "broker_error": seen.broker_error or None,
        "redis_error": seen.redis_error or None,
        "problems": _problems(found),
    }


def _problems(found: Sequence[PersonNeeded]) -> list[dict[str, str]]:
    return [{"text": problem.text, "next_step": problem.next_step} for problem in found]
