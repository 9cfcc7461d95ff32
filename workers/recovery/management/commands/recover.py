from argparse import ArgumentTypeError
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.dateparse import parse_datetime

from weir.postgres import sequences
from weir.postgres.timeline import gate
from weir.postgres.timeline.gate import Closed
from weir.postgres.timeline.seen import Seen
from weir.ratelimit.models import Site
from weir.workers.audit import acting, said
from weir.workers.cli.actions import ExactCommand
from weir.workers.recovery import recovering, stepping


class Command(ExactCommand):
    help = (
        "Go on with a PostgreSQL that has forgotten what it granted, as after the restore of a backup: sites rest, "
        "e-mails that may have gone become unknown, unread numbers are counted until reconciled. Processes find out by "
        "themselves, and do the same, unless Redis and all of them have forgotten as well."
    )
    examples = ('--why "restored the backup of 3 o\'clock" --since "2026-11-24 03:00"', '--why "as above" --dry-run')

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        said.add_arguments(parser, wants_reason=True)
        parser.add_argument(
            "--since",
            type=_moment,
            metavar="TIME",
            help="since when something is missing, in UTC; without it, the last moment that PostgreSQL has noted",
        )
        parser.add_argument(
            "--nothing-lost",
            action="store_true",
            help="take the database as it is, as after pg_upgrade, or a planned switch-over: while no process runs",
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")

    def handle(self, *_args: object, **options: Any) -> None:
        if options["nothing_lost"] and (missing := sequences.sentence(sequences.behind())):
            raise CommandError(f"{missing} Then repeat this command.")
        seen = gate.look()
        since: datetime = options["since"] or seen.numbered_at
        if options["dry_run"]:
            self.stdout.write(
                f"{Site.objects.count():,} sites would rest, and all e-mails become unknown that may have been sent "
                f"since {since:%Y-%m-%d %H:%M:%S} UTC: those that are due, wait after an attempt, are claimed or being "
                "sent."
            )
            return
        try:
            who = acting.of_shell(options["who"]).name
            self._recover(seen, since, who, options["why"], nothing_lost=options["nothing_lost"])
        except (acting.ActRefused, gate.LeaseLost) as error:
            raise CommandError(str(error)) from error

    def _recover(self, seen: Seen, since: datetime, who: str, said_why: str, *, nothing_lost: bool) -> None:
        why = "" if nothing_lost else said_why
        closed = _closed(why, seen)
        if closed.step_s is not None:  # the gate was closed because of a step of the clock, not of a loss
            stepping.settle()
            self.stdout.write(f"Settled: {closed.closed_because}")
            seen = gate.look()
            closed = _closed(why, seen)
        if nothing_lost:
            recovering.accept(said_why, seen, who)
            self.stdout.write("PostgreSQL's history is known now, and nothing was changed.")
            return
        both = why if closed.closed_because == why else f"{why} ({closed.closed_because})"
        done = recovering.recover(both, seen._replace(numbered_at=since), who)
        self.stdout.write(
            f"Recovered: {done.sites:,} sites rest, {done.emails:,} e-mails became unknown (`manage.py emails list`), "
            "and unread numbers are counted until reconciled."
        )


def _closed(why: str, seen: Seen) -> Closed:
    if (closed := gate.close(why, seen)) is None:
        raise CommandError("A process settles that already: `manage.py status` says when it has ended.")
    return closed


def _moment(text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise ArgumentTypeError(f"{text!r} is not a time: write it as 2026-11-24 03:00.")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
