"""What templates show: durations, moments, counts, and the text of strangers."""

import math
import re
from datetime import datetime

from django import template
from django.shortcuts import resolve_url
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from weir.conf import settings
from weir.conf.texts.rates import rate_text
from weir.ops.filters import Chosen
from weir.ratelimit import site_names
from weir.ratelimit.models import PAUSED_FOREVER
from weir.workers.cli import terminal
from weir.workers.fetches.reports.site_list import SiteStatus
from weir.workers.overview import problems

register = template.Library()
NOTHING = "-"
LONGEST_TEXT = 2_000  # characters of a stranger's text
_CODE = re.compile(r"`([^`]+)`")


@register.simple_tag
def logout_url() -> str:
    """Return where a visitor signs out: WEIR_LOGOUT_URL, a path or the name of a URL. "" if it is not set."""
    to = settings.WEIR_LOGOUT_URL
    return resolve_url(to) if to else ""


@register.filter
def span(seconds: float | None) -> str:
    """Return a duration in its two largest units; a dash if there is none."""
    return NOTHING if seconds is None else terminal.span(max(0.0, seconds))


@register.filter
def counted(number: int) -> str:
    """Return a number that was counted up to 10,000: "10,000+" if there are more."""
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
    """Return the rate that holds at a site, as it was written, if it was."""
    return rate_text(site.row.effective_interval, site.row.written_rate)


@register.filter
def held(site: SiteStatus) -> str:
    """Return for how long a site is paused or backed off."""
    is_endless_pause = site.row.paused_until is not None and site.row.paused_until >= PAUSED_FOREVER
    return "until resumed" if is_endless_pause else f"for {terminal.span(site.held_for_s)}"


@register.filter
def is_endless(seconds: float) -> bool:
    """Return whether only a person ends it."""
    return seconds == math.inf


@register.filter
def moment(at: datetime | None) -> SafeString | str:
    """Return how long ago, or in how long; the moment itself, in UTC, stands in the title."""
    if at is None:
        return NOTHING
    seconds = (timezone.now() - at).total_seconds()
    if seconds < 0:
        return _time(at, f"in {terminal.span(-seconds)}")
    return _time(at, f"{terminal.span(seconds)} ago")


@register.filter
def clock(at: datetime | None) -> SafeString | str:
    """Return a moment as the time of day, in UTC, with the day in the title."""
    return NOTHING if at is None else _time(at, f"{at:%H:%M:%S} UTC")


@register.filter
def argument(name: str) -> str:
    """Return a site's name as it stands on a command line."""
    return site_names.as_argument(name)


@register.filter
def foreign(text: str | None) -> str:
    """Return text that a stranger wrote as one line, without control characters and changes of direction."""
    text = text or ""
    shown = terminal.printable(" ".join(text[:LONGEST_TEXT].split()))
    return f"{shown}…" if len(text) > LONGEST_TEXT else shown


@register.filter
def sentence(text: str) -> SafeString:
    """Return a sentence of Weir's, which may quote a stranger, as one line; text in backticks is code."""
    return mark_safe(_CODE.sub(r"<code>\1</code>", escape(foreign(text))))  # noqa: S308  escaped


def _time(at: datetime, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3], text
    )


@register.filter
def pages(cursor: str | None, chosen: Chosen) -> str:
    """Return the query string of the next page; "" after the last one."""
    return chosen.query(cursor) if cursor else ""
