import argparse
import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q
from django.db.models.functions import Now
from rich.text import Text

from ratelimit import site_names, site_settings, sites
from ratelimit.models import PAUSED_FOREVER, Site
from ratelimit.rates import format_rate, parse_duration
from workers import task_names
from workers.cli import terminal
from workers.cli.arguments import at_least_one, from_zero
from workers.fetches import strays
from workers.fetches.maintenance import deleted_sites
from workers.fetches.management import forecast_text
from workers.fetches.management.forecast_text import WHEN
from workers.fetches.reports.forecast import forecast
from workers.fetches.reports.site_status import SiteStatus, busiest_sites
from workers.fetches.robots import crawl_delays
from workers.fetches.targets import DEFAULT_PORTS
from workers.publish import publish

COLUMNS = ("site", "rate", "burst", "at once", "backlog", "reserved for", "state")
SETTINGS = ("burst", "max_concurrency", "grace", "covers_subdomains", "obeys_robots")
TO_DEFAULT: dict[str, Any] = {"action": "store_const", "const": site_settings.DEFAULT}
BACKED_OFF = frozenset({"backed off", "unreachable"})
STYLES = {"paused": "yellow", "backed off": "yellow", "unreachable": "red", "busy": "green", "idle": "dim"}


class Command(BaseCommand):
    help = "List the sites (rate, backlog, state), set, pause, resume and delete one, or say when its backlog clears."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
        parser.add_argument("--limit", type=from_zero, default=100, help="list the N busiest; 0 = all (default 100)")
        actions = parser.add_subparsers(dest="action", metavar="{set,pause,resume,delete,forecast}")

        change = actions.add_parser("set", help="create a site, or change it; what is not given stays as it is")
        change.add_argument("host", help="api.example.com, or example.com:8080")
        change.add_argument("rate", nargs="?", help="3/s, 1/10s, 100/h, 1/day; only a new site needs it")
        change.add_argument("--burst", type=at_least_one, metavar="N", help="starts that may follow each other at once")
        at_once = change.add_mutually_exclusive_group()
        at_once.add_argument("--max-concurrency", type=at_least_one, metavar="N", help="fetches in flight at once")
        at_once.add_argument(
            "--no-max-concurrency", dest="max_concurrency", help="any number of fetches in flight at once", **TO_DEFAULT
        )
        grace = change.add_mutually_exclusive_group()
        grace.add_argument("--grace", metavar="50ms", help="how late a start may be: 15ms to 1d")
        grace.add_argument("--default-grace", dest="grace", help="as late as fits the rate: 25 to 250 ms", **TO_DEFAULT)
        change.add_argument(
            "--covers-subdomains",
            action=argparse.BooleanOptionalAction,
            help="whether hosts below this one share its rate, unless they have a site of their own",
        )
        robots = change.add_mutually_exclusive_group()
        robots.add_argument(
            "--obey-robots",
            dest="obeys_robots",
            action=argparse.BooleanOptionalAction,
            help="whether robots.txt is obeyed there",
        )
        robots.add_argument(
            "--default-robots", dest="obeys_robots", help="it is obeyed as WEIR_OBEY_ROBOTS says", **TO_DEFAULT
        )

        pause = actions.add_parser("pause", help="start nothing there, until resumed or for a time")
        pause.add_argument("host")
        pause.add_argument("--for", dest="duration", metavar="10m", help="90s, 10m, 2h, 1d; default: until resumed")

        resume = actions.add_parser("resume", help="end a pause or a back-off")
        resume.add_argument("host")

        delete = actions.add_parser("delete", help="forget a site that is idle, such as that of a misspelt host")
        delete.add_argument("host")

        expect = actions.add_parser("forecast", help="when a new request would start, and when the backlog clears")
        expect.add_argument("host")
        expect.add_argument("--add", type=from_zero, default=0, metavar="N", help="as if N more requests were queued")
        expect.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON object")

    def handle(self, *_args: object, **options: Any) -> None:
        if options["action"] is None:
            self._list(options["limit"] or None, as_json=options["json"])
            return
        try:
            if options["action"] == "forecast":
                self._forecast(options["host"], options["add"], as_json=options["json"])
            elif options["action"] == "delete":
                deleted_sites.delete(options["host"])
                self.stdout.write(f"{terminal.printable(site_names.canonical(options['host']))} is deleted.")
            else:
                self._change(options)
                self.stdout.write(
                    "\n".join([_described(options["host"]), *_notes(site_names.canonical(options["host"]))])
                )
        except (ValueError, sites.UnknownSite, site_settings.SiteBusy) as error:
            raise CommandError(str(error)) from error

    def _change(self, options: dict[str, Any]) -> None:
        host = options["host"]
        match options["action"]:
            case "set":
                _set(host, options)
                strays.follow_all(0)
                crawl_delays.settle([Site.objects.get(name=site_names.canonical(host)).pk])  # it may obey again
                publish(task_names.DISPATCH)  # fetches whose slots were recalled get new ones at once
            case "pause":
                site_settings.pause(
                    host, parse_duration(options["duration"]) if options["duration"] is not None else None
                )
            case "resume":
                site_settings.resume(host)
                publish(task_names.DISPATCH)

    def _forecast(self, host: str, add: int, *, as_json: bool) -> None:
        expected = forecast(host, add)
        self.stdout.write(
            json.dumps(forecast_text.as_data(expected))
            if as_json
            else forecast_text.as_text(expected, site_names.canonical(host))
        )

    def _list(self, most: int | None, *, as_json: bool) -> None:
        busiest, total = busiest_sites(most)
        sites = sorted(busiest, key=lambda site: site.name)
        if as_json:
            self.stdout.write(json.dumps({"sites": [_as_data(site) for site in sites], "total": total}))
        elif not sites:
            self.stdout.write("No sites yet: a site appears with its first fetch, or with `manage.py sites set`.")
        else:
            self.stdout.write(_as_table(sites), ending="")
            if total > len(sites):
                hidden = f"{total - len(sites):,} of {total:,} sites, less busy, are not shown"
                self.stdout.write(f"{hidden}: --limit 0 shows all.")


def _set(host: str, options: dict[str, Any]) -> None:
    """Create the site, or change what is given."""
    given = {name: options[name] for name in SETTINGS}
    if isinstance(given["grace"], str):
        given["grace"] = parse_duration(given["grace"])
    try:
        site_settings.set_rate(host, options["rate"], **given)
    except sites.UnknownSite as error:
        raise CommandError(f"{error} A rate, such as 3/s, would create it.") from error


def _described(host: str) -> str:
    """Return a line that says what holds for the site now."""
    now_paused, now_backed_off = Q(paused_until__gt=Now()), Q(backed_off_until__gt=Now())
    site = Site.objects.annotate(paused=now_paused, backed_off=now_backed_off).get(name=site_names.canonical(host))
    parts = [_rate(site.interval, site.effective_interval)]
    if site.burst > 1:
        parts.append(f"burst {site.burst}")
    if site.max_concurrency is not None:
        parts.append(f"at most {site.max_concurrency} at once")
    if site.grace is not None:
        parts.append(f"grace {site.grace.total_seconds():g} s")
    if site.covers_subdomains:
        parts.append("covers its subdomains")
    if site.obeys_robots is not None:
        parts.append("obeys robots.txt" if site.obeys_robots else "does not obey robots.txt")
    if site.paused:
        parts.append(_paused(site.paused_until))
    if site.backed_off:
        parts.append(f"{'unreachable' if site.backoff_error else 'backed off'} until {site.backed_off_until:{WHEN}}")
        if site.backoff_error:
            parts.append(terminal.printable(site.backoff_error))
    if not site.paused and not site.backed_off:
        parts.append("running")
    return f"{terminal.printable(site.name)}: {', '.join(parts)}."


def _notes(site: str) -> Iterator[str]:
    """Yield which URLs go to another site than the one that is named with a default port: sites have no scheme."""
    host, _, port = site.rpartition(":")
    for scheme, default in DEFAULT_PORTS.items():
        if port == str(default):
            [other] = DEFAULT_PORTS.keys() - {scheme}
            yield f"{scheme} URLs go to the site {host}, also with this port; only {other} URLs with it come here."


def _rate(interval: timedelta, effective: timedelta) -> str:
    """Return the rate that holds, and whether it is due to a Crawl-delay."""
    return format_rate(interval) if effective == interval else f"{format_rate(effective)} (robots.txt)"


def _paused(until: datetime | None, form: str = WHEN) -> str:
    return f"paused until {until:{form}}" if until and until < PAUSED_FOREVER else "paused until resumed"


def _state(site: SiteStatus) -> str:
    if site.state == "paused":
        return _paused(site.paused_until, "%H:%M:%S UTC" if site.held_for_s < terminal.DAY else WHEN)
    return f"{site.state} for {terminal.span(site.held_for_s)}" if site.state in BACKED_OFF else site.state


def _as_table(sites: Sequence[SiteStatus]) -> str:
    table = terminal.table(*COLUMNS, numbers=COLUMNS[1:-1])
    for site in sites:
        table.add_row(
            terminal.printable(site.name) + (" and below" if site.covers_subdomains else ""),
            _rate(site.interval, site.effective_interval),
            str(site.burst) if site.burst > 1 else "",
            str(site.max_concurrency or ""),
            f"{site.backlog:,}",
            terminal.span(site.reserved_for_s),
            Text(_state(site), STYLES[site.state]),
        )
    return terminal.rendered(table)


def _as_data(site: SiteStatus) -> dict[str, object]:
    paused = site.paused_until if site.state == "paused" else None
    return {
        "site": site.name,
        "rate": format_rate(site.interval),
        "effective_interval_s": site.effective_interval.total_seconds(),
        "burst": site.burst,
        "max_concurrency": site.max_concurrency,
        "covers_subdomains": site.covers_subdomains,
        "obeys_robots": site.obeys_robots,
        "backlog": site.backlog,
        "reserved_for_s": round(site.reserved_for_s, 3),
        "state": site.state,
        "paused_until": paused.isoformat() if paused and paused < PAUSED_FOREVER else None,
        "backed_off_for_s": round(site.held_for_s, 3) if site.state in BACKED_OFF else None,
        "unreachable": site.backoff_error if site.state == "unreachable" else None,
    }
