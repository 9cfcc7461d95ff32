"""Texts of sites, for people and for machines."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from django.utils.text import Truncator
from rich.text import Text

from weir.conf.texts.rates import rate_text
from weir.ratelimit.changing.declared import IN_COMMANDS, SETTINGS
from weir.ratelimit.models import BACKED_OFF_STATES, PAUSED_FOREVER, TRIED_STATES, Site
from weir.workers.cli import terminal
from weir.workers.fetches.actions.sites import version_of
from weir.workers.fetches.management import forecast_text
from weir.workers.fetches.management.forecast_text import WHEN
from weir.workers.fetches.reports.holds import SitePause
from weir.workers.fetches.reports.listed_site import ListedSite, SiteStatus
from weir.workers.fetches.reports.site_status import SiteDetails, SiteNow
from weir.workers.fetches.targets import DEFAULT_PORTS

COLUMNS = ("site", "rate", "burst", "at once", "backlog", "reserved for", "state")
LISTED = [setting for setting in SETTINGS if setting.name in ListedSite._fields]
LONGEST_REASON = 1_000  # characters of the reason of a pause that are shown
LISTED_REASON = 60  # the same, in a list
STYLES = {
    "paused": "yellow",
    "backed off": "yellow",
    "resting": "yellow",
    "unreachable": "red",
    "busy": "green",
    "idle": "dim",
}


def as_table(sites: Sequence[SiteStatus]) -> str:
    """Return the sites as a table."""
    table = terminal.table(*COLUMNS, numbers=COLUMNS[1:-1])
    for site in sites:
        table.add_row(
            terminal.printable(site.row.name) + (" and below" if site.row.covers_subdomains else ""),
            _rate(site.row),
            str(site.row.burst) if site.row.burst > 1 else "",
            str(site.row.max_concurrency or ""),
            f"{site.backlog:,}",
            terminal.span(site.reserved_for_s),
            Text(_state(site), STYLES[site.state]),
        )
    return terminal.rendered(table)


def status_data(site: SiteStatus) -> dict[str, object]:
    """Return a site of the list for machines, also as the columns of the export."""
    row = site.row
    return {
        "site": row.name,
        "rate": rate_text(row.interval, row.written_rate),
        "effective_interval_s": row.effective_interval.total_seconds(),
        **{setting.data_name: setting.as_data(getattr(row, setting.name)) for setting in LISTED},
        "backlog": site.backlog,
        "clears_in_s": round(site.clears_in_s, 3) if math.isfinite(site.clears_in_s) else None,
        "seen_per_s": round(site.seen_per_s, 3),
        "share": round(site.share, 3),
        "refusals": row.backoff_level,
        "starts_out_of_time": row.starts_out_of_time,
        "out_of_time_at": row.out_of_time_at and row.out_of_time_at.isoformat(),
        "reserved_for_s": round(site.reserved_for_s, 3),
        "state": site.state,
        "paused_until": _end_of_pause(row.paused_until) if site.state == "paused" else None,
        **_pause_data(site.pause),
        "backed_off_for_s": round(site.held_for_s, 3) if site.state in BACKED_OFF_STATES else None,
        "backed_off_as": row.backoff_reason or None if site.state in BACKED_OFF_STATES else None,
        "unreachable": row.backoff_error if site.state == "unreachable" else None,
    }


def described(at: SiteNow) -> str:
    """Return a line with the site's settings and its state."""
    parts = [_rate(at.site), *_settings(at.site), *_states(at)]
    return f"{terminal.printable(at.site.name)}: {', '.join(parts)}."


def notes(site: str) -> Iterator[str]:
    """Yield, for a site that is named with a default port, which URLs go to another site: sites have no scheme."""
    host, _, port = site.rpartition(":")
    for scheme, default in DEFAULT_PORTS.items():
        if port == str(default):
            [other] = DEFAULT_PORTS.keys() - {scheme}
            yield f"{scheme} URLs go to the site {host}, also with this port; only {other} URLs with it come here."


def as_text(details: SiteDetails) -> str:
    """Return everything that is known about one site, for a screen."""
    site, expected = details.at.site, details.expected
    lines = {
        "rate": _rate(site),
        "settings": ", ".join(_settings(site)) or "defaults",
        "state": ", ".join(_states(details.at, details.pause)),
        "backlog": f"{expected.queued:,} queued" + (f", {expected.not_due:,} not due yet" if expected.not_due else ""),
        **({"shares": "; ".join(_shares(details))} if details.shares else {}),
        **({"out of time": _out_of_time(site)} if site.starts_out_of_time else {}),
        "robots.txt": "; ".join(_robots(details)),
        "last error": terminal.printable(details.last_error) or "none",
        "forecast": " ".join(forecast_text.sentences(expected)),
        "version": version_of(site),
    }
    return "\n".join([terminal.printable(site.name), *terminal.fields(lines), *notes(site.name)])


def as_data(details: SiteDetails) -> dict[str, object]:
    """Return everything that is known about one site, for machines."""
    return {
        **described_data(details.at),
        **_pause_data(details.pause),
        "robots": [
            {"origin": file.origin, "state": file.state, "error": file.error, "expires_at": file.expires_at.isoformat()}
            for file in details.robots
        ],
        "shares": [share._asdict() for share in details.shares],
        "last_error": details.last_error or None,
        "version": version_of(details.at.site),
        "forecast": forecast_text.as_data(details.expected),
    }


def _pause_data(pause: SitePause | None) -> dict[str, object]:
    return {"paused_by": pause and pause.by, "paused_why": pause and pause.why}


def described_data(at: SiteNow) -> dict[str, object]:
    """Return the site's settings and its state, for machines."""
    site = at.site
    until = (at.next_try or site.backed_off_until) if at.state in BACKED_OFF_STATES else None
    return {
        "site": site.name,
        "rate": site.rate,
        "effective_interval_s": site.effective_interval.total_seconds(),
        "crawl_delay_s": site.crawl_delay and site.crawl_delay.total_seconds(),
        **{each.data_name: each.as_data(getattr(site, each.effective or each.name)) for each in SETTINGS},
        "state": at.state,
        "paused_until": _end_of_pause(site.paused_until) if at.is_paused else None,
        "backed_off_for_s": until and max(0.0, round((until - at.now).total_seconds(), 3)),
        "backed_off_as": site.backoff_reason or None if at.state in BACKED_OFF_STATES else None,
        "unreachable": site.backoff_error if at.state == "unreachable" else None,
        "starts_out_of_time": site.starts_out_of_time,
        "out_of_time_at": site.out_of_time_at and site.out_of_time_at.isoformat(),
    }


def _settings(site: Site) -> Iterator[str]:
    return filter(None, (setting.told(site) for setting in IN_COMMANDS))


def _states(at: SiteNow, pause: SitePause | None = None) -> Iterator[str]:
    """Yield the pause and the back-off of the site; if it has neither, that the site runs."""
    site = at.site
    if at.is_paused:
        yield _paused(site.paused_until) + _by_whom(pause)
    if at.next_try:
        yield f"{at.back_off}, next try {f'at {_utc(at.next_try):{WHEN}}' if at.next_try > at.now else 'now'}"
    elif at.back_off:
        yield f"{at.back_off} until {_utc(site.backed_off_until):{WHEN}}"
    if at.back_off and (said := site.backoff_error or site.backoff_reason):
        yield terminal.printable(said)
    if at.state == "running":
        yield "running"


def _out_of_time(site: Site) -> str:
    starts = "1 start" if site.starts_out_of_time == 1 else f"{site.starts_out_of_time:,} starts"
    return f"{starts}, the last at {_utc(site.out_of_time_at):{WHEN}}"


def _shares(details: SiteDetails) -> Iterator[str]:
    for share in details.shares:
        name = terminal.printable(share.share) or "without a share"
        yield f"{name}: {share.said}{f' (weight {share.weight})' if share.weight > 1 else ''}"


def _robots(details: SiteDetails) -> Iterator[str]:
    if not details.robots:
        yield "not known; it is asked for before the first fetch that has to obey it"
    for file in details.robots:
        error = f" ({terminal.printable(file.error)})" if file.error else ""
        until = f"{_utc(file.expires_at):{WHEN}}"
        yield f"{terminal.printable(file.origin)}: {file.state}{error} until {until}"


def _rate(site: Site | ListedSite) -> str:
    """Return the rate that is in effect, and whether a Crawl-delay is the reason."""
    rate = rate_text(site.effective_interval, site.written_rate)
    return rate if site.effective_interval == site.interval else f"{rate} (robots.txt)"


def _paused(until: datetime | None, form: str = WHEN) -> str:
    return f"paused until {_utc(until):{form}}" if until and until < PAUSED_FOREVER else "paused until resumed"


def _by_whom(pause: SitePause | None, longest: int = LONGEST_REASON) -> str:
    if pause is None:
        return ""
    why = terminal.printable(" ".join(pause.why.split()))
    return f" by {terminal.printable(pause.by)}" + (f" ({Truncator(why).chars(longest)})" if why else "")


def _end_of_pause(until: datetime | None) -> str | None:
    return until.isoformat() if until and until < PAUSED_FOREVER else None


def _state(site: SiteStatus) -> str:
    if site.state == "paused":
        form = "%H:%M:%S UTC" if site.held_for_s < terminal.DAY else WHEN
        return _paused(site.row.paused_until, form) + _by_whom(site.pause, LISTED_REASON)
    if site.state in TRIED_STATES:
        return f"{site.state}, next try {f'in {terminal.span(site.held_for_s)}' if site.held_for_s else 'now'}"
    return f"{site.state} for {terminal.span(site.held_for_s)}" if site.state == "resting" else site.state


def _utc(moment: datetime | None) -> datetime | None:
    return moment and moment.astimezone(UTC)
