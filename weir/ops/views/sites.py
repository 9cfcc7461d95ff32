"""Sites: a list, and a page about one site: its slots, when its backlog clears, and a "what if" forecast."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from django.http import Http404, HttpRequest

from weir.ops import histories, timelines
from weir.ops.filters import Choice, Chosen, PageFilters, Text
from weir.ops.pages import OpsPage, done, page
from weir.ops.snapshots import OverviewSnapshot, Snapshots, look
from weir.ratelimit.changing.declared import SETTINGS
from weir.ratelimit.site_names import InvalidSiteName
from weir.ratelimit.sites import UnknownSite
from weir.workers.fetches.actions.sites import version_of
from weir.workers.fetches.reports import site_list
from weir.workers.fetches.reports.forecast import Forecast, forecast
from weir.workers.fetches.reports.site_status import SiteDetails, site_details
from weir.workers.fetches.reports.timeline import Timeline, timeline

TO_COME = "to come"
FILTERS = PageFilters(
    Text(name="search", label="Name begins with (.example: ends with)", longest=site_list.LONGEST_SEARCH),
    Choice(name="state", label="State", values=site_list.STATES),
    Choice(name="fetches", label="Fetches", values=[TO_COME]),
    Choice(name="sort", label="Order", values=site_list.SORTS, default="backlog"),
)
LONGEST = 20  # characters of each supposed value


@dataclass(frozen=True, kw_only=True, slots=True)
class _WhatIf:
    """The values that the visitor supposes, and the forecast for them, or the reason why there is none."""

    add: str = ""
    rate: str = ""
    expected: Forecast | None = None
    refusal: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _AboutSite:
    details: SiteDetails
    timeline: Timeline
    picture: timelines.Picture
    version: str


def _site(name: str) -> _AboutSite:
    details = site_details(name)
    of = timeline(details.at.site.pk)
    version = version_of(details.at.site)
    return _AboutSite(details=details, timeline=of, picture=timelines.picture(of), version=version)


_backlogs: OverviewSnapshot[site_list.Backlogs] = OverviewSnapshot(least_life_s=5.0)
_lists: Snapshots[site_list.SitePage] = Snapshots()
_sites: Snapshots[_AboutSite] = Snapshots()


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show a page of the sites that meet the filters."""
    chosen = FILTERS.read(request.GET)
    counted = _backlogs.get(site_list.backlogs)
    shows: dict[str, object] = {"chosen": chosen, "counted": counted}
    good_for_s = counted.left_s
    if counted.value is not None:
        found = partial(site_list.site_list, wanted(chosen), chosen.cursor or None, counted=counted.value)
        shows["snapshot"] = snapshot = _lists.get(chosen.key, found)
        good_for_s = min(good_for_s, snapshot.left_s)
    return OpsPage(template="weir/ops/sites.html", title="Sites", good_for_s=good_for_s, shows=shows)


def wanted(chosen: Chosen) -> site_list.SiteFilters:
    """Return the filters that were chosen."""
    of = chosen.values
    return site_list.SiteFilters(
        search=of["search"], state=of["state"], sort=of["sort"] or "name", has_backlog=of["fetches"] == TO_COME
    )


@page
def show(request: HttpRequest, name: str) -> OpsPage:
    """Show one site. If its snapshot could not be read (`snapshot.value` is None), the page says only why."""
    try:
        snapshot = _sites.get((name, done(request)), partial(_site, name))
    except (UnknownSite, InvalidSiteName) as error:
        raise Http404(str(error)) from error
    shows: dict[str, object] = {"name": name, "snapshot": snapshot, "spans": histories.SPANS.values()}
    if snapshot.value is not None:
        site = snapshot.value.details.at.site
        span, charts = histories.of_site(request.GET.get("over"), site.pk)
        settings = [(setting.heading or setting.label, setting.shown(site)) for setting in SETTINGS]
        shows |= {"span": span, "charts": charts, "what_if": _what_if(name, request.GET), "settings": settings}
    return OpsPage(template="weir/ops/site.html", title=name, every_s=2, good_for_s=snapshot.left_s, shows=shows)


def _what_if(name: str, query: Mapping[str, str]) -> _WhatIf:
    add, rate = (query.get(field, "").strip()[:LONGEST] for field in ("add", "rate"))
    if not add and not rate:
        return _WhatIf()
    if add and not (add.isascii() and add.isdecimal()):
        return _WhatIf(add=add, rate=rate, refusal="How many more fetches? A whole number, such as 500.")
    try:
        looked = look(partial(forecast, name, int(add or 0), rate or None))
    except ValueError as error:
        return _WhatIf(add=add, rate=rate, refusal=str(error))
    return _WhatIf(add=add, rate=rate, expected=looked.value, refusal=looked.failure)
