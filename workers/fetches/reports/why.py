"""Why a fetch waits: everything that is in its way now, the most important first.

1. One query reads the fetch and everything that can keep it waiting (sql/why.sql); another query reads the processes.
2. The broker is asked how many messages wait for fetchers.
3. The rest is decided from these answers. If nothing is in the way, the fetch waits for its turn, at the rate of its
   site: the simulation says until when (simulation.py).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.template.defaultfilters import pluralize

from weir.conf import settings
from weir.conf.texts.rates import rate_text
from weir.postgres.statements import Statement
from weir.ratelimit.models import PAUSED_FOREVER, TRIED_STATES, HeldState
from weir.ratelimit.site_names import as_argument
from weir.workers import task_names
from weir.workers.cli.terminal import span
from weir.workers.fetches.access_tokens.tokens import WAITS
from weir.workers.fetches.dispatch import InHand
from weir.workers.fetches.enqueue import webhooks
from weir.workers.fetches.models import FINAL, FetchState
from weir.workers.fetches.reports.holds import next_try, pauses
from weir.workers.fetches.reports.waiting_fetch import UnknownFetch, WaitingFetch, starts_in_s
from weir.workers.fetches.robots.rules import PATH
from weir.workers.on_done.unknown import CALLED_AGAIN
from weir.workers.processes.status import ProcessStatus, processes
from weir.workers.publish import waiting

WHY = Statement("why", row=WaitingFetch, commits=False)

MOST_AHEAD = 10_000  # fetches that are counted
LARGEST_ID = 2**63 - 1  # PostgreSQL would compare a larger number with each row, without an index
SAME_CAUSE = timedelta(seconds=5)  # a fetch that is due so soon after its robots.txt is asked for again waits for that
UNTIL_SOMEBODY_ACTS = frozenset({"no fetcher", "no ticks", "no beat", "broker", "fetchers behind", "endpoint paused"})
DISPATCH_SILENT_S = 10.0  # seconds for which a fetch could have had a slot: dispatch runs each second
FETCHES_NEED = {  # by kind of process: its name, and what does not happen without it
    "fetcher": ("fetcher", "no request is sent"),
    "ticks": ("worker of the queue weir.ticks", "no slot is given out"),
    "beat": ("beat", "nothing calls dispatch"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchBlocker:
    """One thing that is in a fetch's way, or its end."""

    kind: str
    text: str  # one sentence
    until: datetime | None = None  # when it ends by itself; None: not known, or never
    remedy: str = ""  # a command line, or advice in words; "" if there is nothing to do
    ahead: int = 0  # due fetches of its site that are before it in the queue
    waits_for: int | None = None  # the fetch of a robots.txt that has to end first


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """Why a fetch waits, when the database was asked. There is at least one blocker; the first is the headline."""

    fetch: int
    state: str
    now: datetime
    blockers: Sequence[FetchBlocker]
    last_attempt: str = ""  # which it was, and why there is another; "" if there was none


def why(fetch_id: int) -> Why:
    """Return everything that is in the fetch's way. Reads only: at most six queries, and a limited part of the queue.

    If the broker is away, this waits for it for a second and a half. Raises UnknownFetch.
    """
    parameters = {"fetch": fetch_id, "obey": settings.WEIR_OBEY_ROBOTS, "path": PATH, "most": MOST_AHEAD}
    rows = WHY(**parameters) if fetch_id <= LARGEST_ID else []
    if not rows:
        raise UnknownFetch(fetch_id)
    [row] = rows
    if row.state in FINAL:
        found = [_ended(row), *_uncalled(row)]
    else:
        known = processes()
        found = [*_outages(known, row), *_of_site(row)]
        found += _of_fetch(row, known, found)
        found.sort(key=_weight)
    return Why(fetch=row.id, state=row.state, now=row.now, blockers=found, last_attempt=_last_attempt(row))


def _last_attempt(row: WaitingFetch) -> str:
    ended = f"attempt {row.attempts} of {row.max_attempts} ended with: {row.error.rstrip('.')}"
    return ended if row.attempts and row.error else ""


def _weight(blocker: FetchBlocker) -> tuple[int, float]:
    """Return the place of a blocker: those that wait for a person, then those that last longest; the rate is last."""
    if blocker.kind == "holder silent":  # this fetch's own holder matters more than whether there is another fetcher
        return 0, -1.0
    if blocker.kind in UNTIL_SOMEBODY_ACTS:
        return 0, 0.0
    if blocker.kind == "paused" and blocker.until is None:
        return 1, 0.0
    if blocker.kind == "rate":
        return 4, 0.0
    return (2, -blocker.until.timestamp()) if blocker.until else (3, 0.0)


def _ended(row: WaitingFetch) -> FetchBlocker:
    with_status = f" with status {row.status_code}" if row.status_code else ""
    error = f": {row.error}" if row.error else ""
    again = row.effect_command or f"manage.py fetches retry {row.id}"
    retry = again if row.state == FetchState.FAILED else ""
    return FetchBlocker(kind="ended", text=f"It has ended: {row.state}{with_status}{error}.", remedy=retry)


def _uncalled(row: WaitingFetch) -> Iterator[FetchBlocker]:
    """Yield what is in the way of the call of `on_done`."""
    if row.on_done_again_at is not None:
        text = f"Its on_done was called in vain: the worker that got the call does not know the task {row.on_done}."
        yield FetchBlocker(kind="on_done", text=text, until=row.on_done_again_at, remedy=CALLED_AGAIN)


def _outages(known: Sequence[ProcessStatus], row: WaitingFetch) -> Iterator[FetchBlocker]:
    """Yield the blockers of all fetches: missing processes, and a broker that is away."""
    for kind, (name, without) in FETCHES_NEED.items():
        if kind != "fetcher" and row.state != FetchState.QUEUED:
            continue
        of_kind = [process for process in known if kind in process.kinds]
        if not any(process.runs for process in of_kind):
            since = f"has been alive for {span(min(p.silent_s for p in of_kind))}" if of_kind else "is known"
            yield FetchBlocker(kind=f"no {kind}", text=f"No {name} {since}: {without}.", remedy="manage.py processes")
    if row.state == FetchState.RUNNING:
        return
    messages = waiting(task_names.FETCH_BATCH)
    if messages is None:
        yield FetchBlocker(kind="broker", text="The broker cannot be reached: no fetcher hears of a slot.")
    elif (in_hand := InHand.now(settings.WEIR_LOOKAHEAD)).are_behind(messages):
        text = (
            f"Fetchers are behind: {messages:,} messages wait for them, {in_hand.late:,} fetches have missed their "
            "slots, and nothing is reserved meanwhile."
        )
        yield FetchBlocker(kind="fetchers behind", text=text, remedy="start more fetchers")


def _of_site(row: WaitingFetch) -> Iterator[FetchBlocker]:
    """Yield the blockers of all fetches of the site."""
    if row.state == FetchState.RUNNING:
        return
    resume = f"manage.py sites resume {as_argument(row.site)}"
    if row.paused_until and row.paused_until > row.now:
        is_endless = row.paused_until >= PAUSED_FOREVER
        text = f"The site {row.site} is paused{_by_whom(row)}{' until an operator resumes it' if is_endless else ''}."
        yield FetchBlocker(kind="paused", text=text, until=None if is_endless else row.paused_until, remedy=resume)
    if row.back_off:
        until = next_try(row) if row.back_off in TRIED_STATES else row.backed_off_until
        is_ahead = until is not None and until > row.now
        text = _held_text(row)
        yield FetchBlocker(kind=row.back_off, text=text, until=until if is_ahead else None, remedy=resume)


def _by_whom(row: WaitingFetch) -> str:
    found = pauses({row.site: row.paused_until}).get(row.site)
    return f" by {found.by}{f' ({why})' if (why := found.why.rstrip('.')) else ''}" if found else ""


def _held_text(row: WaitingFetch) -> str:
    match row.back_off:
        case HeldState.UNREACHABLE:
            return f"The site {row.site} cannot be reached: {row.backoff_error}."
        case HeldState.RESTING:
            return f"The site {row.site} rests, as {row.backoff_reason}."
    times = f", {row.backoff_level} times in a row" if row.backoff_level > 1 else ""
    said = f": {row.backoff_reason}" if row.backoff_reason else ""
    return f"The site {row.site} refused requests{times}, and is backed off{said}."


def _of_fetch(
    row: WaitingFetch, known: Sequence[ProcessStatus], found: Sequence[FetchBlocker]
) -> Iterator[FetchBlocker]:
    """Yield the blockers of this fetch alone, which depend on its state; `found` has the others."""
    match row.state:
        case FetchState.RUNNING:
            yield _running(row, known)
        case FetchState.RESERVED:
            yield _reserved(row)
        case _ if not row.site:
            yield FetchBlocker(
                kind="no site", text="Its site was deleted: it follows its host to another within seconds."
            )
        case _:
            waits = [*_robots(row), *_token(row), *_not_due(row), *_concurrency(row)]
            yield from waits
            yield from _turn(row, [*found, *waits]) if found or waits else (_silence(row) or _turn(row, ()))


def _running(row: WaitingFetch, known: Sequence[ProcessStatus]) -> FetchBlocker:
    holder = next((process for process in known if process.id == row.claimed_by), None)
    name = holder.name if holder else "a fetcher"
    if holder is None or not holder.runs:
        text = f"{name} has it, and {f'has been silent for {span(holder.silent_s)}' if holder else 'is gone'}."
        return FetchBlocker(kind="holder silent", text=text, until=row.lease_until, remedy="manage.py processes")
    if row.slot_start and row.slot_start > row.now:
        return FetchBlocker(kind="slot", text=f"{name} has it, and waits for its slot.", until=row.slot_start)
    since = f" for {span((row.now - row.slot_start).total_seconds())}" if row.slot_start else ""
    return FetchBlocker(kind="in flight", text=f"It is in flight{since}, at {name}.", until=row.lease_until)


def _reserved(row: WaitingFetch) -> FetchBlocker:
    if row.slot_start is None or row.slot_start > row.now:
        text = "It has a slot, and a message is on its way to a fetcher."
        return FetchBlocker(kind="slot", text=text, until=row.slot_start)
    ago = span((row.now - row.slot_start).total_seconds())
    text = f"Its slot began {ago} ago, and no fetcher has taken it: it is queued again when its lease is over."
    return FetchBlocker(kind="not taken", text=text, until=row.lease_until, remedy="manage.py processes")


def _robots(row: WaitingFetch) -> Iterator[FetchBlocker]:
    """Yield a blocker if robots.txt is not known, or cannot be read: nothing is requested before it is known."""
    if not row.obeys_robots:
        return
    file = f"{row.origin}{PATH}"
    if row.robots_state == "unreachable":
        text = f"{file} cannot be read ({row.robots_error}): nothing is fetched before it is asked for again."
        yield FetchBlocker(kind="robots.txt unreachable", text=text, until=row.robots_expires_at)
    elif row.robots_state is None and row.robots_fetch is not None:
        text = f"{file} is not known yet: fetch {row.robots_fetch}, which asks for it, is {row.robots_fetch_state}."
        yield FetchBlocker(
            kind="robots.txt", text=text, remedy=f"manage.py fetches why {row.robots_fetch}", waits_for=row.robots_fetch
        )
    elif row.robots_state is None:
        text = f"{file} is not known yet: it is asked for when a fetcher takes this fetch."
        yield FetchBlocker(kind="robots.txt", text=text)


def _token(row: WaitingFetch) -> Iterator[FetchBlocker]:
    """Yield a blocker if a fetcher found that the fetch needs an access token that is not known."""
    if row.keeps_place and row.error.startswith(WAITS):
        text = f"It {row.error}, which Weir asks for before everything else at the site of its server."
        yield FetchBlocker(kind="access token", text=text, remedy="manage.py fetches list --state queued")


def _not_due(row: WaitingFetch) -> Iterator[FetchBlocker]:
    if webhooks.is_held(row.endpoint_id, row.not_before):
        text, remedy = f"Its endpoint {row.endpoint_id} is paused.", f"manage.py webhooks resume {row.endpoint_id}"
        yield FetchBlocker(kind="endpoint paused", text=text, remedy=remedy)
    elif row.awaits_effect:
        yield FetchBlocker(kind="effect", text=f"Its effect is asked about: {row.error}.", remedy=row.effect_command)
    elif row.not_before > row.now and not row.keeps_place and not _is_due_with_robots(row):
        said = ": ".join(filter(None, ("It is not due yet", _last_attempt(row) or row.error.rstrip("."))))
        yield FetchBlocker(kind="not due", text=f"{said}.", until=row.not_before)


def _is_due_with_robots(row: WaitingFetch) -> bool:
    """Return whether the fetch becomes due when its robots.txt is asked for again: `_robots` has said so already."""
    again_at = row.robots_expires_at if row.robots_state == "unreachable" and row.obeys_robots else None
    return again_at is not None and row.not_before <= again_at + SAME_CAUSE


def _concurrency(row: WaitingFetch) -> Iterator[FetchBlocker]:
    if row.max_concurrency is not None and row.at_once >= row.max_concurrency:
        text = f"{row.site} allows {row.max_concurrency} at once, and has {row.at_once} reserved or in flight."
        remedy = f"manage.py sites set {as_argument(row.site)} --max-concurrency {2 * row.max_concurrency}"
        yield FetchBlocker(kind="concurrency", text=text, remedy=remedy)


def _silence(row: WaitingFetch) -> list[FetchBlocker]:
    """Return a blocker if dispatch is silent: nothing is in the way, and the rate has allowed a start for long."""
    ends = [end for end in (row.paused_until, row.backed_off_until) if end is not None]
    could_s = min(-row.reserved_for_s, *((row.now - moment).total_seconds() for moment in (row.not_before, *ends)))
    if could_s < DISPATCH_SILENT_S:
        return []
    text = f"It could have had a slot {span(could_s)} ago: dispatch is silent, though beat and a worker are alive."
    return [FetchBlocker(kind="dispatch silent", text=text, remedy="manage.py processes")]


def _turn(row: WaitingFetch, waits: Sequence[FetchBlocker]) -> Iterator[FetchBlocker]:
    """Yield the fetch's place in the queue, and when its turn comes at the rate of its site.

    If one of the other blockers waits for a person, or the site for its first answer, that time is not known.
    """
    more = " or more" if row.ahead >= MOST_AHEAD else ""
    before = f"{row.ahead:,}{more} due fetch{pluralize(row.ahead, 'es')} of {row.site} before it"
    if row.other_shares:
        mine = f"its share {row.share}" if row.share else "what has no share"
        before += f", as {mine} takes turns with {row.other_shares:,} other{pluralize(row.other_shares)}"
    rate = rate_text(row.effective_interval, row.written_rate)
    rate += ", which robots.txt asks for" if row.effective_interval > row.interval else ""
    place = f"{before if row.ahead else 'It is the next one'}, at {rate}"
    from_s = max([0.0, *((wait.until - row.now).total_seconds() for wait in waits if wait.until)])
    turn_s = starts_in_s(row, from_s)
    if row.is_silent:
        text = f"{place}: its turn is not known while the site does not answer."
        yield FetchBlocker(kind="rate", text=text, ahead=row.ahead)
    elif turn_s == math.inf or any(wait.kind in UNTIL_SOMEBODY_ACTS for wait in waits):
        yield FetchBlocker(kind="rate", text=f"{place}.", ahead=row.ahead)
    else:
        until = row.now + timedelta(seconds=turn_s)
        text = f"{place}: its turn comes in {span(turn_s)}{more}."
        yield FetchBlocker(kind="rate", text=text, until=until, ahead=row.ahead)
