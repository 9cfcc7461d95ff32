"""Everything that is wrong: a sentence for each problem, and what to do next. Nothing is read but the settings."""

import shlex
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from django.template.defaultfilters import pluralize
from django.utils.text import Truncator

from weir.conf import settings
from weir.ratelimit.site_names import as_argument
from weir.workers import schedule, ticks
from weir.workers.cli.terminal import span
from weir.workers.on_done.unknown import CALLED_AGAIN
from weir.workers.overview.locks import LockHolder
from weir.workers.overview.overview import LATE_S, MOST, Numbers, Overview
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
    "mailer": ("mailer", "no e-mail is sent, and no effect happens"),
    "worker": ("worker of the queue default", "no task of yours runs"),
}
# For kinds of processes: the alarm in whose runbook it is said what to do without one; for others, WeirQueueSilent.
RUNBOOKS: Final = {"beat": "WeirBeatSilent", "fetcher": "WeirNoFetcher", "mailer": "WeirNoMailer"}
LONGEST_REPLY: Final = 200  # characters of a mail server's reply
MOST_NAMED: Final = 5  # how many silent processes have a sentence of their own


class TargetKind(Enum):
    """What a person acts on, or looks at. The value of a target names it."""

    FETCH = "fetch"  # by its id
    SITE = "site"
    PAUSED_SITE = "paused site"  # to resume it
    SITES = "sites"  # those with fetches to come, by their state
    EMAILS = "e-mails"  # by their state, and their kind if `of` names one
    EFFECTS = "effects"  # by their state
    ENDPOINT = "endpoint"  # by its id
    EMAIL_KIND = "kind of e-mail"  # to pause it
    PROCESSES = "processes"


class Target(NamedTuple):
    """Where a person does something about a problem, or sees more of it. Pages know the way to each kind of target."""

    kind: TargetKind
    value: str = ""
    of: str = ""


class Section(NamedTuple):
    """A section of the documentation: its page, without a suffix, and its heading."""

    page: str
    heading: str

    @property
    def url(self) -> str | None:
        """Return the section's URL where WEIR_DOCS_URL says that the documentation is; None without it."""
        if not settings.WEIR_DOCS_URL:
            return None
        return f"{settings.WEIR_DOCS_URL.replace('*', self.page)}#{self._anchor}"

    @property
    def place(self) -> str:
        """Return the section's URL, or its place in a checkout of Weir."""
        return self.url or f"docs/{self.page}.md#{self._anchor}"

    @property
    def _anchor(self) -> str:
        return self.heading.lower().replace(" ", "-")


class PersonNeeded(NamedTuple):
    """Something that needs somebody."""

    text: str  # one sentence
    next_step: str  # a command line, or words
    runbook: Section
    targets: Sequence[Target] = ()  # the worst of its sites or kinds, not all
    about: str = ""  # what tells it from other problems with its runbook, however long it lasts: so no number of it


PROCESSES: Final = [Target(TargetKind.PROCESSES)]
BROKER_LOST: Final = Section("operations", "When the broker is lost")
REDIS_LOST: Final = Section("operations", "When Redis loses the counters")
UPGRADE: Final = Section("operations", "Upgrade")
ON_DONE: Final = Section("how-to/enqueue-from-web-code", "Handle the end")
EFFECTS: Final = Section("how-to/once-for-any-effect", "Effects that need you")
WEBHOOKS: Final = Section("how-to/receive-webhooks", "What Weir does when a receiver fails")


def problems(seen: Overview) -> Iterator[PersonNeeded]:
    """Yield what needs somebody; a problem that stops more comes first."""
    if seen.broker_remedy:
        text = f"The broker answers, and refuses what it is told ({seen.broker_error}): workers hear of nothing."
        yield PersonNeeded(text, seen.broker_remedy, BROKER_LOST)
    elif seen.broker_error:
        text = f"The broker cannot be reached ({seen.broker_error}): workers hear of nothing."
        yield PersonNeeded(text, "start it, or correct its URL", BROKER_LOST)
    if seen.redis_error:
        text = f"Redis cannot be reached ({seen.redis_error}): unread numbers are counted row by row."
        yield PersonNeeded(text, "start it, or correct WEIR_REDIS_URL", REDIS_LOST)
    yield from unmigrated(seen.missing_migrations)
    yield from held_up(seen.holders)
    yield from _forgotten(seen)
    yield from _processes(seen)
    yield from _queues(seen)
    yield from _fetches(seen)
    yield from _emails(seen)
    yield from _effects(seen)


def needed() -> dict[str, tuple[str, str]]:
    """Return the kinds of processes that the installed apps need, as in NEEDED."""
    of_queues = set(map(kinds.of_queue, schedule.queues()))
    return {kind: told for kind, told in NEEDED.items() if kind == kinds.BEAT or kind in of_queues}


def shown(number: int) -> str:
    """Return the text of a number that was counted up to MOST; `10,000+` stands for more."""
    return f"{number:,}" if number <= MOST else f"{MOST:,}+"


def unmigrated(missing: int) -> Iterator[PersonNeeded]:
    """Yield a sentence about the migrations that are not applied."""
    if missing:
        text = f"{missing:,} migration{pluralize(missing, ' is,s are')} not applied."
        yield PersonNeeded(text, "manage.py migrate", UPGRADE)


def held_up(holders: Sequence[LockHolder]) -> Iterator[PersonNeeded]:
    """Yield a sentence for each session that holds a lock for which others wait."""
    for holder in holders:
        if not holder.pid:
            text = "A transaction that is prepared holds a lock for which others wait."
            next_step = "SELECT * FROM pg_prepared_xacts, and COMMIT or ROLLBACK PREPARED"
            yield PersonNeeded(text, next_step, _alarm("WeirOldSnapshot"), about="prepared")
            continue
        what = ", ".join(filter(None, (holder.application_name, f"role {holder.role}", holder.state)))
        text = f"Process {holder.pid} of PostgreSQL ({what}) holds a lock"
        if holder.sessions:
            waits = f"{holder.sessions:,} session{pluralize(holder.sessions, ' waits,s wait')}"
            text += f" for which {waits}, the longest for {span(holder.waits_s)}"
        if holder.open_s is not None:
            text += f"; its transaction is open for {span(holder.open_s)}"
        next_step = f"end what it does there; where need be, SELECT pg_terminate_backend({holder.pid})"
        yield PersonNeeded(f"{text}.", next_step, _alarm("WeirOldSnapshot"), about=f"process {holder.pid}")


def _forgotten(seen: Overview) -> Iterator[PersonNeeded]:
    numbers = seen.numbers
    if numbers.closed_because:
        text = f"Nothing is granted until that is settled: {numbers.closed_because}"
        next_step = "wait; manage.py recover, if that takes longer than a minute"
        yield PersonNeeded(text, next_step, _alarm("WeirGateClosed"))
    elif numbers.recovered_at:
        at = f"{numbers.recovered_at:%Y-%m-%d %H:%M:%S} UTC"
        emails = f"{numbers.recovered_emails:,} e-mail{pluralize(numbers.recovered_emails or 0)}"
        text = f"{numbers.recovered_because} Weir recovered from that at {at}; {emails} became unknown."
        next_step = "docs/operations.md, A database that forgets"
        yield PersonNeeded(text, next_step, _alarm("WeirRecovered"), [Target(TargetKind.EMAILS, "unknown")])


def _processes(seen: Overview) -> Iterator[PersonNeeded]:
    if not seen.processes:
        next_step = "make up, or what manage.py weir_processes prints"
        yield PersonNeeded("No process is known: nothing runs.", next_step, _alarm("WeirQueueSilent"), PROCESSES)
        return
    alive = by_kind(process for process in seen.processes if process.runs)
    for kind, (name, without) in needed().items():
        if kind not in alive:
            runbook = _alarm(RUNBOOKS.get(kind, "WeirQueueSilent"))
            text = f"No {name} is alive: {without}."
            yield PersonNeeded(text, "manage.py processes", runbook, PROCESSES, about=kind)
    silent = [
        process
        for process in seen.processes
        if process.state == "silent" and any(kind in alive for kind in process.kinds)
    ]
    texts = [(each.name, f"{each.name} has been silent for {span(each.silent_s)}.") for each in silent[:MOST_NAMED]]
    if more := len(silent[MOST_NAMED:]):
        texts.append(("others", f"{more:,} more process{pluralize(more, ' is,es are')} silent."))
    for about, text in texts:
        yield PersonNeeded(text, "manage.py processes", _alarm("WeirProcessSilent"), PROCESSES, about=about)


def _queues(seen: Overview) -> Iterator[PersonNeeded]:
    limits = {schedule.FETCH: schedule.MOST_UNTAKEN, **dict.fromkeys(ticks.QUEUES, ticks.MOST_WAITING - 1)}
    for queue, messages in seen.messages.items():
        if messages > limits.get(queue, MOST):
            text = f"{messages:,} messages wait in the queue {queue}: its workers are down, or too few."
            yield PersonNeeded(text, "manage.py processes", _alarm("WeirMessagesPileUp"), PROCESSES, about=queue)


def _fetches(seen: Overview) -> Iterator[PersonNeeded]:
    numbers = seen.numbers
    if numbers.missed:
        text = f"Fetchers are behind: of {numbers.missed_of:,} slots of the last minutes, {numbers.missed:,} passed "
        next_step = "start more fetchers (docs/how-to/scale-out.md), or see what slows them"
        yield PersonNeeded(f"{text}before one took them.", next_step, _alarm("WeirSlotsMissed"), PROCESSES)
    if numbers.stalled:
        sites = f"{shown(numbers.stalled)} site{pluralize(numbers.stalled)}"
        text = f"Due fetches of {sites} do not start, though their rate would allow it."
        targets = [Target(TargetKind.FETCH, str(numbers.stalled_fetch))]
        targets += [Target(TargetKind.SITE, name) for name in numbers.stalled_sites]
        yield PersonNeeded(text, f"manage.py fetches why {numbers.stalled_fetch}", _alarm("WeirSitesStalled"), targets)
    if numbers.halted:
        yield _halted(numbers)
    if numbers.uncalled:
        calls = f"{shown(numbers.uncalled)} call{pluralize(numbers.uncalled)} of {numbers.uncalled_as}"
        were = pluralize(numbers.uncalled, "was,were")
        text = f"{calls} {were} not made, as a worker does not know the task {numbers.uncalled_task}."
        next_step = f"{CALLED_AGAIN}; manage.py doctor says which name is close"
        yield PersonNeeded(text, next_step, ON_DONE, about=numbers.uncalled_task or "")
    if numbers.broken_endpoints:
        error = Truncator(" ".join((numbers.broken_endpoint_error or "").split())).chars(LONGEST_REPLY)
        others = numbers.broken_endpoints - 1
        more = f" and {others:,} other{pluralize(others)}" if others else ""
        text = f"Webhooks are not received by the endpoint {numbers.broken_endpoint_name}{more}: {error.rstrip('.')}."
        target = Target(TargetKind.ENDPOINT, str(numbers.broken_endpoint))
        yield PersonNeeded(text, f"manage.py webhooks show {numbers.broken_endpoint}", WEBHOOKS, [target])


def _halted(numbers: Numbers) -> PersonNeeded:
    targets = [Target(TargetKind.PAUSED_SITE, name) for name in numbers.halted_sites]
    if numbers.halted == 1:
        text = f"Due fetches wait until an operator resumes {numbers.halted_site}, which is paused."
        next_step = f"manage.py sites resume {as_argument(numbers.halted_site or '')}"
    else:
        sites = f"{shown(numbers.halted)} sites"
        text = f"Due fetches of {sites} wait until an operator resumes these, which are paused."
        next_step = "manage.py sites list"
        targets.insert(0, Target(TargetKind.SITES, "paused"))
    return PersonNeeded(text, next_step, _alarm("WeirSitesHalted"), targets)


def _emails(seen: Overview) -> Iterator[PersonNeeded]:
    numbers = seen.numbers
    if numbers.unknown:
        emails = f"{shown(numbers.unknown)} e-mail{pluralize(numbers.unknown)}"
        text = f"{emails} may have arrived or not, the oldest for {span(numbers.oldest_unknown_s or 0)}."
        targets = _of_kinds("unknown", numbers.unknown_kinds)
        yield PersonNeeded(text, "manage.py emails list", _alarm("WeirEmailsUnknown"), targets)
    if numbers.failing:
        yield _failing(numbers)
    if (numbers.oldest_pending_s or 0) > LATE_S:
        text = f"E-mails wait for the mail server, the oldest for {span(numbers.oldest_pending_s or 0)}."
        targets = _of_kinds("pending", numbers.late_kinds)
        yield PersonNeeded(text, "manage.py emails list --state pending", _alarm("WeirEmailsWait"), targets)


def _effects(seen: Overview) -> Iterator[PersonNeeded]:
    numbers = seen.numbers
    if numbers.unknown_effects:
        effects = f"{shown(numbers.unknown_effects)} effect{pluralize(numbers.unknown_effects)}"
        text = f"{effects} may have happened or not, the oldest for {span(numbers.oldest_unknown_effect_s or 0)}."
        targets = [Target(TargetKind.EFFECTS, "unknown")]
        yield PersonNeeded(text, "manage.py effects list", _alarm("WeirEffectsUnknown"), targets)
    if (numbers.oldest_pending_effect_s or 0) > LATE_S:
        text = f"Effects wait to begin, the oldest for {span(numbers.oldest_pending_effect_s or 0)}."
        targets = [Target(TargetKind.EFFECTS, "pending")]
        yield PersonNeeded(text, "manage.py effects list --state pending", EFFECTS, targets)


def _failing(numbers: Numbers) -> PersonNeeded:
    text = f"{numbers.failing:,} of {numbers.failing_of:,} e-mails that ended in the last hour failed"
    command = "manage.py emails list --state failed"
    targets = [Target(TargetKind.EMAILS, "failed", numbers.failing_kind or "")]
    if numbers.failing_kind:
        reply = Truncator(" ".join((numbers.failing_reply or "").split())).chars(LONGEST_REPLY)
        text += f", most of the kind {numbers.failing_kind} with the reply: {reply}"
        command += f" --kind {shlex.quote(numbers.failing_kind)}"
        targets.append(Target(TargetKind.EMAIL_KIND, numbers.failing_kind))
    next_step = f"{command}; when the cause is mended, manage.py emails resend"
    about = numbers.failing_kind or ""
    return PersonNeeded(f"{text.rstrip('.')}.", next_step, _alarm("WeirEmailsFail"), targets, about)


def _of_kinds(state: str, named: Sequence[str]) -> list[Target]:
    """Return the e-mails of the state, and those of each of these kinds."""
    return [Target(TargetKind.EMAILS, state), *(Target(TargetKind.EMAILS, state, kind) for kind in named)]


def _alarm(name: str) -> Section:
    """Return the runbook of the alarm with this name."""
    return Section("runbooks", name)
