"""Formats e-mails for people and for machines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.utils.text import Truncator
from rich.text import Text

from weir.workers.cli import terminal
from weir.workers.mail.actions import emails
from weir.workers.mail.actions.kinds import version_of as version_of_kind
from weir.workers.mail.models import Act, Email, RelayHold, Suppression
from weir.workers.mail.reports import counts
from weir.workers.mail.reports.counts import KindNumbers, Sent
from weir.workers.mail.reports.previews import EmailPreview
from weir.workers.mail.reports.why import EmailBlocker, goes_by

COLUMNS = ("id", "kind", "key", "recipient", "subject", "phase", "last reply", "worker", "age")
NEVER_FOLDED = ("id", "phase", "age", "state")
SHOWN_SUBJECT = 60  # characters
SHOWN = 200  # characters of a reply in the table; --json has all of them
LABELS = {"message_id": "Message-ID", "content_hash": "SHA-256"}
TIMES = (
    *("created_at", "next_attempt_at", "expires_at", "sending_since", "sent_at", "ask_until"),
    *("delivered_at", "complained_at"),
)


def list_text(
    emails: Sequence[Email], numbers: Mapping[str, str], holds: Sequence[RelayHold], *, has_states: bool, has_more: bool
) -> str:
    """Return the numbers by state, the held relays, and a table of the e-mails, which may have a column of states."""
    text = "\n".join(f"{number:>11} {counted}" for counted, number in numbers.items())
    for hold in holds:
        text += f"\n\n{terminal.printable(_held(hold))}"
    if emails:
        text += f"\n\n{_table(emails, has_states=has_states)}"
    if has_more:
        text += "More are not shown: --limit 0 shows all."
    return text


def _held(hold: RelayHold) -> str:
    return f"The relay {hold.relay} cannot be used since {_moment(hold.since.isoformat())}. {hold.reason}"


def hold_data(hold: RelayHold) -> dict[str, object]:
    """Return a relay that cannot be used, for machines."""
    times = {"since": hold.since.isoformat(), "tried_at": hold.tried_at.isoformat()}
    return {"relay": hold.relay, "reason": hold.reason, **times}


def number_text(number: int) -> str:
    """Return a number that was counted up to counts.MOST."""
    return bounded_text(number, or_more=number >= counts.MOST)


def numbers_text(states: Mapping[str, int], hour: Sent, day: Sent) -> dict[str, str]:
    """Return the number of e-mails in each state, and the numbers of sent e-mails, by a description of each."""
    sent = {"sent in the last hour": hour, "sent in the last day": day}
    return {
        **{state: number_text(number) for state, number in states.items()},
        **{counted: bounded_text(these.number, or_more=these.or_more) for counted, these in sent.items()},
    }


def sent_data(sent: Sent) -> dict[str, object]:
    """Return how many e-mails were sent, for machines."""
    return {"number": sent.number, "or_more": sent.or_more, "by_kind": dict(sorted(sent.by_kind.items()))}


def bounded_text(number: int, *, or_more: bool) -> str:
    """Return a number that was counted up to a bound."""
    return f"{number:,}+" if or_more else f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with the noun for what it counts, such as `2 e-mails`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _table(emails: Sequence[Email], *, has_states: bool) -> str:
    columns = ("id", "state", *COLUMNS[1:]) if has_states else COLUMNS
    table = terminal.table(*columns, numbers=("id", "age"))
    for column in table.columns:
        column.no_wrap = column.header in NEVER_FOLDED
    for email in emails:
        texts = (
            *([email.state] if has_states else []),
            email.kind,
            email.key,
            email.recipient,
            Truncator(email.subject).chars(SHOWN_SUBJECT),
            email.phase,
            Truncator(email.last_reply).chars(SHOWN),
            email.claimed_by,
        )
        table.add_row(
            str(email.pk),
            *(Text(terminal.printable(text)) for text in texts),
            terminal.span(_age_s(email)),
        )
    return terminal.rendered(table)


def as_data(email: Email) -> dict[str, object]:
    """Return an e-mail of the list for machines, also as the columns of the export."""
    return {
        "id": email.pk,
        "state": email.state,
        "kind": email.kind,
        "key": email.key,
        "recipient": email.recipient,
        "subject": email.subject,
        "message_id": email.message_id,
        "attempts": email.attempts,
        "phase": email.phase,
        "last_reply": email.last_reply,
        "worker": email.claimed_by,
        "age_s": round(_age_s(email), 3),
    }


def details(email: Email, blockers: Sequence[EmailBlocker]) -> dict[str, object]:
    """Return all that is known of one e-mail, for machines: what it waits for, and what was said about it."""
    times = ((name, getattr(email, name)) for name in TIMES)
    return {
        **as_data(email),
        **{
            name: getattr(email, name)
            for name in ("language", "priority", "content_hash", "content_size", "renderings", "relay", "provider_id")
        },
        **{name: moment and moment.isoformat() for name, moment in times},
        "goes_by": [relay.name for relay in goes_by(email)],
        "correlation_id": email.correlation_id or None,
        "version": emails.version_of(email),
        "waits_for": [
            {"what": it.what, "text": it.text, "until": it.until and it.until.isoformat()} for it in blockers
        ],
        "resolutions": [
            {
                "at": said.resolved_at.isoformat(),
                "who": said.who,
                "did": said.done.value,
                "why": said.why,
                "was": said.state,
                "last_reply": said.last_reply,
            }
            for said in email.resolutions.order_by("pk")
        ],
    }


def as_text(of: dict[str, object]) -> str:
    """Return what `details` says as text for a terminal, without empty fields."""
    lines = {name: terminal.printable(value) for name, value in _fields(of) if value}
    waits = (f"  waits  {it['text']}{_until(it['until'])}" for it in _listed(of, "waits_for"))
    said = _listed(of, "resolutions")
    resolutions = (f"  {_moment(each['at'])}  {each['who']}: {Act(each['did']).label}. {each['why']}" for each in said)
    return "\n".join([f"e-mail {of['id']}", *terminal.fields(lines), *map(terminal.printable, (*waits, *resolutions))])


def _listed(of: dict[str, object], name: str) -> list[Any]:
    listed = of[name]
    return listed if isinstance(listed, list) else []


def _until(moment: object) -> str:
    return f" (until {_moment(moment)})" if moment else ""


def _fields(of: dict[str, object]) -> Iterator[tuple[str, str]]:
    for name in ("state", "kind", "key", "recipient", "subject", "language", "message_id", "content_hash", "attempts"):
        yield LABELS.get(name, name), str(of[name])
    yield "queued", _moment(of["created_at"])
    yield "next attempt", _moment(of["next_attempt_at"]) if of["state"] == "pending" else ""
    yield "expired" if of["state"] == "expired" else "expires", _moment(of["expires_at"])
    yield "transmitted", _moment(of["sending_since"])
    yield "sent", _moment(of["sent_at"])
    yield "delivered", _moment(of["delivered_at"])
    yield "complained of", _moment(of["complained_at"])
    yield "asked until", _moment(of["ask_until"])
    for name in ("phase", "last_reply", "relay", "provider_id", "worker"):
        yield name.replace("_", " "), str(of[name])
    yield "goes by", ", then ".join(str(name) for name in _listed(of, "goes_by"))
    yield "correlation id", str(of["correlation_id"] or "")
    yield "version", str(of["version"])


def _moment(moment: object) -> str:
    return f"{datetime.fromisoformat(str(moment)).astimezone(UTC):%Y-%m-%d %H:%M:%S UTC}" if moment else ""


def _age_s(email: Email) -> float:
    age_s: float = vars(email)["age"].total_seconds()
    return max(0.0, age_s)


def kinds_text(kinds: Sequence[KindNumbers]) -> str:
    """Return the kinds as a table, and below the table who paused which kind, and why."""
    columns = ("waiting", "unknown", "failed", "sent, hour", "sent, day")
    has_routes = len({tuple(kind.relays) for kind in kinds}) > 1
    table = terminal.table("kind", *columns, *(["relays"] if has_routes else []), "", numbers=columns)
    for kind in kinds:
        numbers = (number_text(number) for number in (kind.waiting, kind.unknown, kind.failed))
        sent = (
            bounded_text(kind.sent_hour, or_more=kind.sent_hour_or_more),
            bounded_text(kind.sent_day, or_more=kind.sent_day_or_more),
        )
        ways = [terminal.printable(", then ".join(kind.relays))] if has_routes else []
        remark = "paused" if kind.paused_at else "" if kind.is_registered else "no app registers it"
        table.add_row(kind.kind, *numbers, *sent, *ways, remark)
    paused = (
        f"{kind.kind}: paused by {kind.who} since {_moment(kind.paused_at.isoformat())}. {kind.why}"
        for kind in kinds
        if kind.paused_at
    )
    return "\n".join([terminal.rendered(table).rstrip("\n"), *map(terminal.printable, paused)])


def kind_data(kind: KindNumbers) -> dict[str, object]:
    """Return a kind for machines."""
    paused = {"at": kind.paused_at.isoformat(), "who": kind.who, "why": kind.why} if kind.paused_at else None
    numbers = {"waiting": kind.waiting, "unknown": kind.unknown, "failed": kind.failed}
    sent = {
        "last_hour": {"number": kind.sent_hour, "or_more": kind.sent_hour_or_more},
        "last_day": {"number": kind.sent_day, "or_more": kind.sent_day_or_more},
    }
    of_kind = {"kind": kind.kind, "is_registered": kind.is_registered, "paused": paused, **numbers}
    return {**of_kind, "sent": sent, "relays": kind.relays, "version": version_of_kind(kind.paused_at)}


def suppressed_text(entries: Sequence[Suppression], *, has_more: bool) -> str:
    """Return a page of the suppression list as a table."""
    if not entries:
        return "No address is on the suppression list."
    table = terminal.table("address", "id", "since", "why", numbers=("id",))
    for column in table.columns:
        column.no_wrap = column.header in {"id", "since"}
    for entry in entries:
        name, why = (Text(terminal.printable(text)) for text in (entry.address or entry.address_hash, entry.why))
        table.add_row(name, str(entry.pk), f"{entry.since:%Y-%m-%d}", why)
    more = f"More are on the list: --before {entries[-1].pk} goes on." if has_more else ""
    return terminal.rendered(table) + more


def suppression_data(entry: Suppression) -> dict[str, object]:
    """Return an entry of the suppression list for machines."""
    return {
        "id": entry.pk,
        "address": entry.address or None,
        "address_hash": entry.address_hash,
        "since": entry.since.isoformat(),
        "why": entry.why,
    }


def preview_text(preview: EmailPreview) -> str:
    """Return headers, text and files of an e-mail as text for a terminal."""
    headers = [f"{name}: {value}" for name, value in preview.headers]
    files = [f"[{part.name}: {part.content_type}, {counted(part.size, 'byte')}]" for part in preview.attachments]
    text = preview.text.replace("\r\n", "\n").rstrip("\n").split("\n")
    note = [] if preview.is_stored else ["(rendered now, not stored)"]
    return "\n".join(map(terminal.printable, [*note, *headers, "", *text, *([""] if files else []), *files]))


def preview_data(preview: EmailPreview) -> dict[str, object]:
    """Return an e-mail's parts for machines."""
    return {
        "is_stored": preview.is_stored,
        "headers": [list(header) for header in preview.headers],
        "text": preview.text,
        "html": preview.html or None,
        "attachments": [asdict(part) for part in preview.attachments],
    }
