import argparse
from datetime import timedelta
from typing import Any, ClassVar

from django.core.management.base import CommandParser

from weir.ratelimit import site_names, site_settings, sites
from weir.ratelimit.changing.declared import IN_COMMANDS, Kind
from weir.ratelimit.models import Site
from weir.workers.audit import acting, said
from weir.workers.cli import terminal
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import (
    at_least_one,
    duration,
    from_zero,
    header,
    network,
    one_of,
    parameter,
    statuses,
    utf8,
    weight,
)
from weir.workers.fetches.actions import sites as actions
from weir.workers.fetches.management import forecast_text, site_text
from weir.workers.fetches.reports.forecast import forecast
from weir.workers.fetches.reports.site_list import STATES, SiteFilters, all_sites, backlogs
from weir.workers.fetches.reports.site_status import site_details, site_now

TO_DEFAULT: dict[str, Any] = {"action": "store_const", "const": site_settings.DEFAULT}
READ: dict[Kind, dict[str, Any]] = {
    Kind.COUNT: {"type": at_least_one, "metavar": "N"},
    Kind.DURATION: {"type": duration, "metavar": "50ms"},
    Kind.FLAG: {"action": argparse.BooleanOptionalAction},
    Kind.STATUSES: {"type": statuses, "metavar": "403,999"},
    Kind.HEADERS: {"type": header, "action": "append", "metavar": "'NAME: VALUE'"},
    Kind.QUERY: {"type": parameter, "action": "append", "metavar": "NAME=VALUE"},
    Kind.NETWORK: {"type": network, "action": "append", "metavar": "NAME=VALUE"},
    Kind.WEIGHTS: {"type": weight, "action": "append", "metavar": "SHARE=N"},
}
LISTED = 100


class List(Subcommand):
    """List the sites with the largest backlogs."""

    name = "list"
    help = "list the sites with rate, backlog and state"
    description = "List the sites with the largest backlogs, in the order of their names: rate, limits, backlog, state."
    examples = ("list", "list --limit 0 --json", "list --state paused", "list --search .example.com")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--limit",
            type=from_zero,
            default=LISTED,
            metavar="N",
            help=f"only the N sites with the largest backlogs; 0 = all (default {LISTED})",
        )
        parser.add_argument(
            "--state", type=one_of(STATES, "state"), metavar="STATE", help=f"only {', '.join(STATES)} ones"
        )
        parser.add_argument(
            "--search",
            type=utf8,
            metavar="TEXT",
            help="only those whose names begin so: api; with a dot before it, those that end so: .example.com",
        )

    def run(self, *, limit: int, state: str | None, search: str | None, **_options: Any) -> Result:
        meant = SiteFilters(search=search or "", state=state or "", sort="backlog")
        total = Site.objects.count()
        found = all_sites(meant, limit or None, counted=backlogs())
        listed = sorted(found, key=lambda site: site.row.name)

        def text() -> str:
            if meant.search or meant.state:
                more = f"There may be more than {limit:,}: --limit 0 shows all." if len(listed) == limit else ""
                return site_text.as_table(listed) + more if listed else "No such sites."
            if not listed:
                return "No sites yet: a site appears with its first fetch, or with `manage.py sites set`."
            hidden = f"{total - len(listed):,} of {total:,} sites, less busy, are not shown: --limit 0 shows all."
            return site_text.as_table(listed) + (hidden if total > len(listed) else "")

        return Result(text=text, data={"sites": [site_text.status_data(site) for site in listed], "total": total})


class Show(Subcommand):
    """Show one site."""

    name = "show"
    help = "show everything about one site: settings, state, backlog, robots.txt, last error, forecast"
    examples = ("show api.example.com", "show api.example.com --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("host", metavar="HOST")

    def run(self, *, host: str, **_options: Any) -> Result:
        details = site_details(host)
        return Result(text=lambda: site_text.as_text(details), data=site_text.as_data(details))


class Set(Subcommand):
    """Create a site, or change its settings."""

    name = "set"
    help = "create a site, or change it; what is not given stays as it is"
    examples = (
        "set api.example.com 3/s --burst 5 --max-concurrency 2",
        "set example.com 1/10s --covers-subdomains",
        "set api.example.com --no-max-concurrency --default-grace",
        "set shop.example.com --refusing 403,999",
        'set api.example.com --header "Authorization: Bearer {secret:SHOP}" --header "Accept: application/json"',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("host", metavar="HOST", help="api.example.com, or example.com:8080")
        parser.add_argument(
            "rate", nargs="?", metavar="RATE", help="3/s, 1/10s, 100/h, 1/day; only a new site needs it"
        )
        for setting in IN_COMMANDS:
            group = parser.add_mutually_exclusive_group() if setting.undo else parser
            option = setting.option or f"--{setting.name.replace('_', '-')}"
            group.add_argument(option, dest=setting.name, help=setting.option_help, **READ[setting.kind])
            if setting.undo:
                undo, undo_help = setting.undo
                group.add_argument(undo, dest=setting.name, help=undo_help, **TO_DEFAULT)
        _add_said(parser)

    def run(self, *, host: str, rate: str | None, who: str | None, why: str = "", **options: Any) -> Result:
        settings = {setting.name: options[setting.name] for setting in IN_COMMANDS}
        try:
            actions.set_rate(acting.of_shell(who), host, rate, why=why, seen=options["seen"], **settings)
        except sites.UnknownSite as error:
            raise ValueError(f"{error} A rate, such as 3/s, would create it.") from error
        return _changed(host)


class Pause(Subcommand):
    """Pause a site."""

    name = "pause"
    help = "start nothing at a site, until it is resumed or for a time"
    examples = (
        "pause api.example.com",
        'pause api.example.com --for 10m --why "Its owner asked us to."',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("host", metavar="HOST")
        parser.add_argument(
            "--for",
            dest="pause",
            type=duration,
            metavar="10m",
            help="30 (seconds), 10m, 2h, 1d; default: until resumed",
        )
        _add_said(parser)

    def run(self, *, host: str, pause: timedelta | None, who: str | None, why: str = "", **options: Any) -> Result:
        actions.pause(acting.of_shell(who), host, pause, why=why, seen=options["seen"])
        return _changed(host)


class Resume(Subcommand):
    """End a pause or a back-off of a site."""

    name = "resume"
    help = "end a pause or a back-off of a site"
    examples = ("resume api.example.com",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("host", metavar="HOST")
        _add_said(parser)

    def run(self, *, host: str, seen: str | None, who: str | None, why: str = "", **_options: Any) -> Result:
        actions.resume(acting.of_shell(who), host, why=why, seen=seen)
        return _changed(host)


class Forecast(Subcommand):
    """Show a forecast of a site."""

    name = "forecast"
    help = "say when a new request would start, and when the backlog clears"
    examples = ("forecast api.example.com", "forecast api.example.com --add 5000 --rate 5/s --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("host", metavar="HOST")
        parser.add_argument("--add", type=from_zero, default=0, metavar="N", help="as if N more requests were queued")
        parser.add_argument("--rate", metavar="RATE", help="as if the site had this rate, such as 5/s, from now on")

    def run(self, *, host: str, add: int, rate: str | None, **_options: Any) -> Result:
        expected = forecast(host, add, rate)
        return Result(
            text=lambda: forecast_text.as_text(expected, site_names.canonical(host)),
            data=forecast_text.as_data(expected),
        )


class Delete(Subcommand):
    """Delete sites that are no longer needed."""

    name = "delete"
    help = "forget idle sites, such as those of misspelt hosts"
    examples = ("delete api.exmaple.com", "delete old.example.com older.example.com --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("hosts", nargs="+", metavar="HOST", help="these, each by itself")
        said.add_arguments(parser)

    def run(self, *, hosts: list[str], who: str | None, why: str = "", **_options: Any) -> Result:
        actor = acting.of_shell(who)
        deleted: list[str] = []
        refused: list[str] = []
        for host in dict.fromkeys(hosts):
            try:
                actions.delete(actor, host, why=why)
            except Command.refusals as refusal:
                refused.append(str(refusal))
            else:
                deleted.append(site_names.canonical(host))
        text = "\n".join(f"{terminal.printable(name)} is deleted." for name in deleted)
        return Result(text=lambda: text, data={"deleted": deleted, "refused": refused}, refused=refused)


class Command(ActionCommand):
    help = "List, show, set, pause, resume and delete sites, and say when the backlog of a site clears."
    actions = (List(), Show(), Set(), Pause(), Resume(), Forecast(), Delete())
    refusals: ClassVar = (ValueError, sites.UnknownSite, site_settings.SiteBusy, acting.ActRefused)


def _add_said(parser: CommandParser) -> None:
    said.add_seen(parser, "`sites show`")
    said.add_arguments(parser)


def _changed(host: str) -> Result:
    """Return the settings and the state of a site that was changed."""
    at = site_now(host)
    lines = [site_text.described(at), *site_text.notes(at.site.name)]
    return Result(text=lambda: "\n".join(lines), data=site_text.described_data(at))
