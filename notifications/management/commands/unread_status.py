import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser

from weir.notifications.reports import MOST, UnreadStatus, unread_status
from weir.workers.cli import terminal
from weir.workers.cli.actions import ExactCommand
from weir.workers.cli.terminal import span

TRUST = {True: "Redis is trusted", False: "rows are counted until a whole full scan", None: "never reconciled"}


class Command(ExactCommand):
    help = (
        "Show how unread numbers do: trust, doubts, the full scan, and the last 20 repairs. "
        "Nothing is counted beyond 10,000."
    )
    examples = ("", "--json")
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="one JSON object instead of text")

    def handle(self, *_args: object, **options: Any) -> None:
        seen = unread_status()
        if options["json"]:
            self.stdout.write(json.dumps(_as_data(seen)))
        else:
            self.stdout.write("\n".join(_as_text(seen)))


def _as_text(seen: UnreadStatus) -> Iterator[str]:
    oldest = "" if seen.oldest_doubt_s is None else f", the oldest for {span(seen.oldest_doubt_s)}"
    lines = {
        "trust": TRUST[seen.trusted],
        "doubts": f"{_shown(seen.doubts)}{oldest}",
        "flush": "none yet" if seen.flushed_s is None else f"{span(max(0.0, seen.flushed_s))} ago",
        "full scan": _scan(seen),
        "waiting": f"{_shown(seen.read_marks)} read marks, {_shown(seen.forgotten_users)} forgotten users",
        "repaired": f"{seen.repaired_users:,} numbers since the first pass",
    }
    yield from terminal.fields(lines)
    for repair in seen.repairs:
        yield f"{repair.repaired_at:%Y-%m-%d %H:%M:%S} UTC: {repair.users:,} repaired, by {repair.drift:,} in all"


def _scan(seen: UnreadStatus) -> str:
    here = "its place is not known" if seen.scan_share is None else f"at {seen.scan_share:.0%}"
    if seen.scan_ended_at is None:
        return f"{here}; none has come to its end yet"
    age_s = max(0.0, (seen.now - seen.scan_ended_at).total_seconds())
    return f"{here}; the last one ended {span(age_s)} ago, and took {span(seen.scan_took_s or 0)}"


def _shown(number: int) -> str:
    return f"{number:,}" if number <= MOST else f"{MOST:,}+"


def _as_data(seen: UnreadStatus) -> dict[str, object]:
    found = asdict(seen) | {"repairs": [repair._asdict() for repair in seen.repairs]}
    read: dict[str, object] = json.loads(json.dumps(found, default=_as_json))
    return read


def _as_json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
