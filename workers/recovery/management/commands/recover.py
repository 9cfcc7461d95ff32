import getpass
import os
from argparse import ArgumentTypeError
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.dateparse import parse_datetime

from postgres.timeline import gate
from ratelimit.models import Site
from workers.cli.actions import ExactCommand
from workers.recovery import recovering


class Command(ExactCommand):
    help = (
        "Go on with a PostgreSQL that has forgotten what it granted, as after the restore of a backup: sites rest, "
        "e-mails that may have gone become unknown, unread numbers are counted until reconciled. Processes find out by "
        "themselves, and do the same, unless Redis and all of them have forgotten as well."
    )
    examples = ('--why "restored the backup of 3 o\'clock" --since "2026-11-24 03:00"', '--why "as above" --dry-run')

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--why", required=True, metavar="TEXT", help="what happened, for those who read it later")
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
        seen = gate.look()
        since: datetime = options["since"] or seen.numbered_at
        if options["dry_run"]:
            self.stdout.write(
                f"{Site.objects.count():,} sites would rest, and all e-mails become unknown that may have been sent "
                f"since {since:%Y-%m-%d %H:%M:%S} UTC: those that are due, claimed or being sent."
            )
            return
        why = "" if options["nothing_lost"] else options["why"]
        if (closed := gate.close(why, seen)) is None:
            raise CommandError("A process recovers from that already: `manage.py status` says when it has ended.")
        if options["nothing_lost"]:
            recovering.accept(options["why"], seen, _who())
            self.stdout.write("PostgreSQL's history is known now, and nothing was changed.")
            return
        both = why if closed.closed_because == why else f"{why} ({closed.closed_because})"
        done = recovering.recover(both, seen._replace(numbered_at=since), _who())
        self.stdout.write(
            f"Recovered: {done.sites:,} sites rest, {done.emails:,} e-mails became unknown (`manage.py emails list`), "
            "and unread numbers are counted until reconciled."
        )


def _moment(text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise ArgumentTypeError(f"{text!r} is no time: write it as 2026-11-24 03:00.")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has a number only
        return f"the user {os.getuid()}"
