"""E-mails as people and as machines read them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from django.utils.text import Truncator
from rich.text import Text

from workers.cli import terminal
from workers.mail.models import Act, Email

COLUMNS = ("id", "kind", "key", "recipient", "subject", "phase", "last reply", "worker", "age")
NEVER_FOLDED = ("id", "phase", "age")
SHOWN_SUBJECT = 60  # characters
SHOWN = 200  # characters of a reply in the table; --json has all of them
LABELS = {"message_id": "Message-ID", "content_hash": "SHA-256"}
TIMES = ("created_at", "next_attempt_at", "sending_since", "sent_at")


def list_text(emails: Sequence[Email], counts: Mapping[str, int], state: str) -> str:
    """Return the numbers by state, and the e-mails of this state as a table."""
    text = "\n".join(f"{number:>11,} {counted}" for counted, number in counts.items())
    if emails:
        text += f"\n\n{_table(emails)}"
    if (hidden := counts[state] - len(emails)) > 0:
        text += f"{hidden:,} of {counts[state]:,}, less old, are not shown: --limit 0 shows all."
    return text


def _table(emails: Sequence[Email]) -> str:
    table = terminal.table(*COLUMNS, numbers=("id", "age"))
    for column in table.columns:
        column.no_wrap = column.header in NEVER_FOLDED
    for email in emails:
        texts = (
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
    """Return an e-mail of the list for machines."""
    return {
        "id": email.pk,
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


def details(email: Email) -> dict[str, object]:
    """Return all that is known of one e-mail, for machines, with what operators said about it."""
    times = ((name, getattr(email, name)) for name in TIMES)
    return {
        **as_data(email),
        "state": email.state,
        **{name: getattr(email, name) for name in ("language", "priority", "content_hash", "relay", "provider_id")},
        **{name: moment and moment.isoformat() for name, moment in times},
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
    """Return what `details` says, on a screen; without what there is not."""
    lines = {name: terminal.printable(value) for name, value in _fields(of) if value}
    said = of["resolutions"] if isinstance(of["resolutions"], list) else []
    resolutions = (f"  {_moment(each['at'])}  {each['who']}: {Act(each['did']).label}. {each['why']}" for each in said)
    return "\n".join([f"e-mail {of['id']}", *terminal.fields(lines), *map(terminal.printable, resolutions)])


def _fields(of: dict[str, object]) -> Iterator[tuple[str, str]]:
    for name in ("state", "kind", "key", "recipient", "subject", "language", "message_id", "content_hash", "attempts"):
        yield LABELS.get(name, name), str(of[name])
    yield "queued", _moment(of["created_at"])
    yield "next attempt", _moment(of["next_attempt_at"]) if of["state"] == "pending" else ""
    yield "transmitted", _moment(of["sending_since"])
    yield "sent", _moment(of["sent_at"])
    for name in ("phase", "last_reply", "relay", "provider_id", "worker"):
        yield name.replace("_", " "), str(of[name])


def _moment(moment: object) -> str:
    return f"{datetime.fromisoformat(str(moment)).astimezone(UTC):%Y-%m-%d %H:%M:%S UTC}" if moment else ""


def _age_s(email: Email) -> float:
    age_s: float = vars(email)["age"].total_seconds()
    return max(0.0, age_s)
