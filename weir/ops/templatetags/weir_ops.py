"""Tags and filters for templates: durations, moments, counts, and text from foreign servers and users."""

import math
import re
from contextlib import suppress
from datetime import datetime

from django import template
from django.shortcuts import resolve_url
from django.utils import timezone
from django.utils.dateparse import parse_datetime, parse_duration
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator

from weir.conf import settings
from weir.conf.texts.rates import format_duration, rate_text
from weir.ops.filters import Chosen
from weir.ratelimit import site_names
from weir.ratelimit.models import PAUSED_FOREVER
from weir.workers.audit.models import Entry
from weir.workers.cli import terminal
from weir.workers.fetches.reports.listed_site import SiteStatus
from weir.workers.mail.actions import kinds
from weir.workers.mail.reports.counts import KindNumbers
from weir.workers.overview import problems

register = template.Library()
NOTHING = "-"
LONGEST_TEXT = 2_000  # characters of foreign text
LONGEST_VALUE = 120  # characters of a value that was changed
# As Django writes them into JSON. A reason that somebody has given may have this form, too, and be no moment.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", re.ASCII)
_DURATION = re.compile(r"P\d{1,6}DT\d\dH\d\dM\d\d(\.\d+)?S", re.ASCII)
_CODE = re.compile(r"`([^`]+)`")


@register.simple_tag
def logout_url() -> str:
    """Return the path at which a visitor signs out, from WEIR_LOGOUT_URL; "" if this setting is not set."""
    to = settings.WEIR_LOGOUT_URL
    return resolve_url(to) if to else ""


@register.filter
def span(seconds: float | None) -> str:
    """Return a duration in its two largest units; a dash for None."""
    return NOTHING if seconds is None else terminal.span(max(0.0, seconds))


@register.filter
def counted(number: int) -> str:
    """Return a number that was counted up to 10,000; "10,000+" if there are more."""
    return problems.shown(number)


@register.filter
def intcommas(number: int) -> str:
    """Return a whole number with commas."""
    return f"{number:,}"


@register.filter
def percent(share: float) -> str:
    """Return a share of one as percent."""
    return f"{share:.0%}"


@register.filter
def rate(site: SiteStatus) -> str:
    """Return the rate that applies to a site, as an operator wrote it, if an operator wrote this rate."""
    return rate_text(site.row.effective_interval, site.row.written_rate)


@register.filter
def held(site: SiteStatus) -> str:
    """Return for how long a site is still paused or rests, or when it is tried next."""
    if site.next_try:
        return f"next try {f'in {terminal.span(site.held_for_s)}' if site.held_for_s else 'now'}"
    return "until resumed" if site.is_halted else f"for {terminal.span(site.held_for_s)}"


@register.filter
def is_endless(seconds: float) -> bool:
    """Return whether a wait is infinite: only a person can end it."""
    return seconds == math.inf


@register.filter
def moment(at: datetime | None) -> SafeString | str:
    """Return how long ago a moment was, or in how long it will be; its title is the moment itself, in UTC."""
    if at is None:
        return NOTHING
    seconds = (timezone.now() - at).total_seconds()
    if seconds < 0:
        return _time(at, f"in {terminal.span(-seconds)}")
    return _time(at, f"{terminal.span(seconds)} ago")


@register.filter
def clock(at: datetime | None) -> SafeString | str:
    """Return a moment as the time of day, in UTC; its title also has the day."""
    return NOTHING if at is None else _time(at, f"{at:%H:%M:%S} UTC")


@register.filter
def argument(name: str) -> str:
    """Return a site's name as it is written on a command line."""
    return site_names.as_argument(name)


@register.filter
def recorded_changes(entry: Entry) -> list[str]:
    """Return each value that was changed as text: "rate: 3/s → 9/s", or "state: cancelled" if no value was before."""
    was_known = entry.before is not None
    return [
        f"{foreign(name).replace('_', ' ')}: {f'{_recorded(was)} → ' if was_known else ''}{_recorded(became)}"
        for name, was, became in entry.changes
    ]


def _recorded(value: object) -> str:
    """Return a value of the audit trail, which is of JSON's types, as text of at most LONGEST_VALUE characters."""
    match value:
        case None | [] | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            text = ", ".join(map(_recorded, value))
        case dict():
            text = ", ".join(f"{foreign(name)}: {_recorded(part)}" for name, part in value.items())
        case _:
            text = _recorded_text(str(value))
    return Truncator(text).chars(LONGEST_VALUE)


def _recorded_text(text: str) -> str:
    """Return a moment without its fractions of a second, a duration as operators write it, and other text as it is."""
    with suppress(ValueError):
        if _MOMENT.fullmatch(text) and (at := parse_datetime(text)) is not None:
            return "an operator resumes it" if at >= PAUSED_FOREVER else f"{at:%Y-%m-%d %H:%M:%S} UTC"
    if _DURATION.fullmatch(text) and (duration := parse_duration(text)) is not None:
        return format_duration(duration)
    return foreign(text)


@register.filter
def version(kind: KindNumbers) -> str:
    """Return the version of a kind of e-mail that the page shows."""
    return kinds.version_of(kind.paused_at)


@register.filter
def foreign(text: str | None) -> str:
    """Return foreign text as one line, without control characters and changes of writing direction."""
    text = text or ""
    shown = terminal.printable(" ".join(text[:LONGEST_TEXT].split()))
    return f"{shown}…" if len(text) > LONGEST_TEXT else shown


@register.filter
def sentence(text: str) -> SafeString:
    """Return one of Weir's sentences, which may quote foreign text, as one line; text in backticks becomes code."""
    return mark_safe(_CODE.sub(r"<code>\1</code>", escape(foreign(text))))  # noqa: S308  escaped


def _time(at: datetime, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3], text
    )


@register.filter
def pages(cursor: str | None, chosen: Chosen) -> str:
    """Return the query string of the next page; "" after the last one."""
    return chosen.query(cursor) if cursor else ""
