"""`manage.py emails evidence`: resolves unknown e-mails according to the mail server's logs."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.management.base import CommandParser

from weir.workers.audit import acting, said
from weir.workers.cli import terminal
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import duration
from weir.workers.mail.actions import emails as actions
from weir.workers.mail.evidence import settling
from weir.workers.mail.evidence.reading import Logs
from weir.workers.mail.evidence.settling import EvidenceReport, Given, JudgedEmail
from weir.workers.mail.evidence.verdicts import CLOCK_ERROR, LogOutcome, Vouched
from weir.workers.mail.models import Act
from weir.workers.mail.transports import relays

WHO = "evidence"
DONE = {LogOutcome.ACCEPTED: "it is sent", LogOutcome.NOT_ACCEPTED: "it is sent again"}
TO_DO = {LogOutcome.ACCEPTED: "it would be sent", LogOutcome.NOT_ACCEPTED: "it would be sent again"}


class Evidence(Subcommand):
    """What the mail server's logs prove."""

    name = "evidence"
    help = "settle unknown e-mails by the mail server's logs; without --apply, only say what they prove"
    description = (
        "Read logs of Postfix or Exim, in any order, plain or packed by gzip, bzip2, xz, zstd, tar or zip, and say of "
        "each unknown e-mail what they prove: it was accepted (a line shows it), or it was certainly not accepted (the "
        "logs are complete and have nothing), or it is still unknown. The logs may be missing lines that nobody can "
        "see: say with --complete-from and --complete-until for which time you vouch that they have all lines of all "
        "your mail servers. Without these two, nothing is called not accepted."
    )
    examples = (
        "evidence /var/log/mail.log /var/log/mail.log.1.gz",
        "evidence --complete-from 2026-11-22T00:00 --complete-until 2026-11-23T12:00 /var/log/mail.log* --apply",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="a log of a mail server; - is stdin")
        parser.add_argument(
            "--apply", action="store_true", help="accepted ones become sent, those that were not are sent again"
        )
        parser.add_argument("--who", type=said.name, default=WHO, metavar="NAME", help="who says so, for the audit")
        _add_vouching(parser)
        _add_what_files_lack(parser)

    def run(self, *, files: list[str], apply: bool, who: str, zone: tzinfo | None, **options: Any) -> Result:
        local = zone or local_zone()
        vouched = Vouched(
            complete_from=_in_zone(options["complete_from"], local),
            complete_until=_in_zone(options["complete_until"], local),
            clock_error=options["clock_error"],
            queue_empty=options["queue_empty"],
            survived_crashes=options["log_survived_crashes"],
            strange_harmless=options["strange_lines_harmless"],
            relays=tuple(map(_whole_name, options["relays"] or ())),
            hosts=tuple(options["hosts"] or ()),
        )
        given = Given(local, options["year"], tuple(options["hosts_of"] or ()))
        report = settling.settle(files, vouched, given, _resolve_as(acting.of_shell(who)) if apply else None)
        return Result(text=lambda: "\n".join(_lines(report, apply=apply)), data=_data(report, apply=apply))


def _resolve_as(actor: acting.Actor) -> settling.Resolve:
    """Return a function that resolves e-mails as this actor. Raises acting.ActRefused, before the logs are read."""
    actions.RESOLVE[Act.ARRIVED].allow(actor, WHO)
    return lambda email_id, act, why: actions.resolve(actor, email_id, act, why=why, may_be_late=False)


def _add_vouching(parser: CommandParser) -> None:
    for name, end in (("--complete-from", "from"), ("--complete-until", "until")):
        parser.add_argument(
            name,
            type=_moment,
            metavar="TIME",
            help=f"you vouch that nothing is missing {end} here: 2026-11-23T17:20",
        )
    parser.add_argument(
        "--queue-empty",
        action="store_true",
        help="the mail server's queue was empty afterwards (postqueue -p)",
    )
    parser.add_argument(
        "--log-survived-crashes",
        action="store_true",
        help="where the mail server was started without a stop, no line is missing: another process kept the log",
    )
    parser.add_argument(
        "--strange-lines-harmless",
        action="store_true",
        help="you have looked at the lines that were not understood, or seem to be cut: none is of an e-mail of yours",
    )
    parser.add_argument(
        "--relay",
        dest="relays",
        action="append",
        metavar="NAME",
        help="the logs are those of this relay (HOST:PORT, or your own name for it), once for each; default: the only "
        "one, if it is a mail server",
    )
    parser.add_argument(
        "--host",
        dest="hosts",
        action="append",
        metavar="HOST",
        help="a mail server by its name in the logs, once for each; default: all that are in them",
    )
    parser.add_argument(
        "--clock-error",
        type=duration,
        default=CLOCK_ERROR,
        metavar="TIME",
        help="by which the clocks of database and mail server may differ (default 5m)",
    )


def _add_what_files_lack(parser: CommandParser) -> None:
    parser.add_argument(
        "--zone", type=_zone, metavar="ZONE", help="of times that name none, such as Europe/Berlin; default: local"
    )
    parser.add_argument(
        "--year",
        type=int,
        choices=range(1970, 9_999),
        metavar="YEAR",
        help="of the last line of each file, where lines name no year; default: as each file's change shows",
    )
    parser.add_argument(
        "--host-of",
        dest="hosts_of",
        type=_host_of,
        action="append",
        metavar="HOST=FILES",
        help="whose lines those are that name no host, once for each host: mx1='logs/mx1/*'; default: files of "
        "one name, such as mainlog and mainlog.2.gz of one folder, are of one host",
    )


def _lines(report: EvidenceReport, *, apply: bool) -> Iterator[str]:
    yield from (_line(judged, apply=apply) for judged in report.judged)
    counts = report.counts()
    yield ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in LogOutcome) + "."
    yield from _of_logs(report.logs)
    if report.more:
        yield f"There are more than {settling.MOST:,} unknown e-mails: run it again."
    if not apply and counts.total() > counts[LogOutcome.STILL_UNKNOWN]:
        yield "Nothing was changed: --apply does it."


def _line(judged: JudgedEmail, *, apply: bool) -> str:
    outcome = judged.verdict.outcome
    words = DONE if judged.resolved else TO_DO
    effect = f", {words[outcome]}" if outcome in words else ""
    if apply and effect and not judged.resolved:
        effect = ", but it is no longer unknown: another operator was faster"
    return terminal.printable(f"E-mail {judged.id}: {outcome}{effect}. {judged.verdict.why}")


def _of_logs(logs: Logs) -> Iterator[str]:
    yield f"{logs.lines:,} lines were read; {logs.of_other_programs:,} are of other programs."
    for host, coverage in sorted(logs.coverage.items()):
        first, last = (f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}" for moment in (coverage.first, coverage.last))
        yield terminal.printable(
            f"{host or 'The mail server'}: {coverage.lines:,} lines from {first} until {last} UTC."
        )
    if logs.not_understood:
        yield f"{logs.not_understood:,} lines were not understood, such as:"
        yield from (f"  {terminal.printable(sample)}" for sample in logs.samples)


def _data(report: EvidenceReport, *, apply: bool) -> dict[str, object]:
    logs, counts = report.logs, report.counts()
    return {
        "applied": apply,
        "counts": {outcome.value: counts[outcome] for outcome in LogOutcome},
        "more": report.more,
        "emails": [
            {
                "id": judged.id,
                "message_id": judged.message_id,
                "outcome": judged.verdict.outcome.value,
                "why": terminal.printable(judged.verdict.why),
                "resolved": judged.resolved,
            }
            for judged in report.judged
        ],
        "logs": {
            "lines": logs.lines,
            "of_other_programs": logs.of_other_programs,
            "not_understood": logs.not_understood,
            "samples": [terminal.printable(sample) for sample in logs.samples],
            "hosts": {
                host: {"lines": coverage.lines, "first": coverage.first.isoformat(), "last": coverage.last.isoformat()}
                for host, coverage in sorted(logs.coverage.items())
            },
        },
    }


def _moment(text: str) -> datetime:
    """Return the time, for argparse."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a time such as 2026-11-23T17:20, not {text!r}") from None


def _host_of(text: str) -> tuple[str, str]:
    """Return a host and a pattern of file names, for argparse."""
    host, equals, pattern = text.partition("=")
    if not host or not equals or not pattern:
        raise argparse.ArgumentTypeError(f"must be a host and its files, such as mx1='logs/mx1/*', not {text!r}")
    return host, pattern


def _whole_name(name: str) -> str:
    """Return the full name of the relay that has this full name or own name; any other name is returned unchanged."""
    relay = relays.named(name, relays.relays())
    return relay.name if relay else name


def _zone(text: str) -> tzinfo:
    """Return the time zone, for argparse."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"must be a time zone such as Europe/Berlin, not {text!r}") from None


def local_zone() -> tzinfo:
    """Return the operating system's zone, with its summer time."""
    try:
        return ZoneInfo("localtime")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC


def _in_zone(moment: datetime | None, zone: tzinfo) -> datetime | None:
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=zone)
