"""Operations on sites: what a site does, what it will do, and changes by an operator's program."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status

from weir.api.access import actor
from weir.api.http import etags
from weir.api.http.problems import (
    BUSY,
    CHANGED,
    IF_MATCH_NEEDED,
    INVALID,
    NOT_FOUND,
    NOT_PERMITTED,
    READ_ONLY,
    Problem,
)
from weir.api.operations.looking import finite, looked, value_of
from weir.api.operations.operation import IF_MATCH, operation, refused
from weir.api.schemas import sites as schemas
from weir.api.schemas.values import Host
from weir.api.tokens import scopes
from weir.api.tokens.models import SITE_PREFIX
from weir.conf.texts.rates import parse_duration, rate_text
from weir.conf.texts.request_headers import named_in
from weir.conf.texts.site_network import PROXY
from weir.ops.snapshots import OverviewSnapshot
from weir.ratelimit import site_names
from weir.ratelimit.changing.declared import SETTINGS
from weir.ratelimit.models import Site
from weir.workers.cursors import BadCursor
from weir.workers.fetches.actions import sites
from weir.workers.fetches.models import RobotsFile
from weir.workers.fetches.reports import site_list
from weir.workers.fetches.reports.forecast import forecast
from weir.workers.fetches.reports.listed_site import SiteStatus
from weir.workers.fetches.reports.site_status import SiteDetails, site_details, site_now

router = Router(tags=["sites"])
CHANGES: Final = (READ_ONLY, NOT_FOUND, BUSY, CHANGED)
_backlogs: OverviewSnapshot[site_list.Backlogs] = OverviewSnapshot(least_life_s=5.0)


@operation(router, "GET", "/sites", scope=scopes.SEE_SITES, answers={200: schemas.SitePage})
def list_sites(request: HttpRequest, query: Query[schemas.SiteListQuery]) -> schemas.SitePage:
    """List the sites that meet the filters, with their rates, backlogs and states."""
    counted = value_of(_backlogs.get(site_list.backlogs))
    filters = site_list.SiteFilters(search=query.search, state=query.state, sort=query.sort)
    with refused(INVALID, BadCursor):
        page = looked(partial(site_list.site_list, filters, query.after or None, counted=counted))
    rows = [_listed(site) for site in page.sites]
    return schemas.SitePage(sites=rows, next=page.next, looked_at=page.looked_at, is_whole=counted.is_whole)


@operation(
    router, "GET", "/sites/{host}", scope=scopes.SEE_SITES, answers={200: schemas.SiteDetails}, refusals=[NOT_FOUND]
)
def get_site(request: HttpRequest, host: Host, response: HttpResponse) -> schemas.SiteDetails:
    """Return all about one site. Its ETag is what a change of the site needs."""
    details = looked(partial(site_details, host))
    response.headers["ETag"] = etags.etag(sites.version_of(details.at.site))
    return _details(details)


@operation(router, "GET", "/sites/{host}/forecast", scope=scopes.SEE_SITES, answers={200: schemas.SiteForecast})
def get_forecast(request: HttpRequest, host: Host, query: Query[schemas.ForecastQuery]) -> schemas.SiteForecast:
    """Say when a fetch that is asked for now would start, and when the backlog clears; of a host without site, too."""
    with refused(INVALID, ValueError):
        found = looked(partial(forecast, host, query.add, query.rate or None))
    named = {name: value for name, value in asdict(found).items() if name in schemas.SiteForecast.model_fields}
    endless = {name: finite(named[name]) for name in ("held_for_s", "starts_in_s", "clears_in_s")}
    return schemas.SiteForecast(**{**named, **endless})


@operation(
    router,
    "PUT",
    "/sites/{host}",
    scope=scopes.CHANGE_SITES,
    answers={200: schemas.SiteWithSettings, 201: schemas.SiteWithSettings},
    refusals=[READ_ONLY, BUSY, CHANGED, IF_MATCH_NEEDED],
)
def put_site(
    request: HttpRequest, host: Host, wanted: schemas.NewSettings, response: HttpResponse, if_match: str = IF_MATCH
) -> Any:  # noqa: ANN401  ninja's pair of status and body
    """Set all settings of a site, or create it. It holds immediately, in all processes.

    A site that exists needs If-Match with the ETag that was seen: of two programs that change the same version, one is
    refused. Headers, the query and the network may name the secrets that those of the site name already, and no others:
    those, and proxies, are an operator's to name, on a page or by a command.
    """
    name = _changeable(host)
    before = Site.objects.filter(name=name).first()
    _refuse_new_secrets(wanted, before)
    version = etags.seen_if_required(if_match, sites.version_of(before), exists=before is not None)
    with refused(INVALID, ValueError):
        after = sites.set_rate(actor(request), host, wanted.rate, why=wanted.why, seen=version, **_settings(wanted))
    response.headers["ETag"] = etags.etag(sites.version_of(after))
    settings = _shown(sites.settings_of(after))
    return Status(201 if before is None else 200, schemas.SiteWithSettings(name=name, settings=settings))


@operation(router, "PUT", "/sites/{host}/pause", scope=scopes.CHANGE_SITES, answers={204: None}, refusals=CHANGES)
def pause_site(request: HttpRequest, host: Host, wanted: schemas.Pause, if_match: str = IF_MATCH) -> HttpResponse:
    """Start nothing at a site for some time, or until it is resumed. What is in flight ends."""
    version = _version(host, if_match)
    with refused(INVALID, ValueError):
        lasts: timedelta | None = None if wanted.lasts is None else parse_duration(wanted.lasts)
        sites.pause(actor(request), host, lasts, why=wanted.why, seen=version)
    return HttpResponse(status=204)


@operation(router, "DELETE", "/sites/{host}/pause", scope=scopes.CHANGE_SITES, answers={204: None}, refusals=CHANGES)
def resume_site(
    request: HttpRequest, host: Host, query: Query[schemas.WhyQuery], if_match: str = IF_MATCH
) -> HttpResponse:
    """End the pause of a site, and its back-off."""
    sites.resume(actor(request), host, why=query.why, seen=_version(host, if_match))
    return HttpResponse(status=204)


@operation(
    router,
    "POST",
    "/sites/{host}/robots-requests",
    scope=scopes.ASK_ROBOTS,
    answers={202: schemas.AskedRobots},
    refusals=(READ_ONLY, NOT_FOUND, BUSY),
)
def ask_robots(request: HttpRequest, host: Host, wanted: schemas.Reason) -> schemas.AskedRobots:
    """Ask a site for its robots.txt again. Nothing is fetched there until it has come."""
    name = site_now(host).site.name
    asked = sites.ask_robots(actor(request), sites.origins_of(name), why=wanted.why)
    return schemas.AskedRobots(origins=asked)


def _changeable(host: str) -> str:
    """Return the name of the site. Raises Problem for a token's site, because no token may raise its own rate."""
    name = site_names.canonical(host)
    if name.startswith(SITE_PREFIX):
        raise Problem(NOT_PERMITTED, "The rates of tokens are changed by people: `manage.py sites set`.")
    return name


def _refuse_new_secrets(wanted: schemas.NewSettings, site: Site | None) -> None:
    """Raise Problem if a setting names other secrets than the site's: a token could send any to a host of its own."""
    for name in ("headers", "query", "network"):
        known = named_in(getattr(site, name, None) or {})
        if new := named_in(getattr(wanted, name) or {}) - known:
            said = ", ".join(sorted(map(str, new)))
            raise Problem(INVALID, f"{name} must not name a new secret here, but name {said}.")
    kept, new_proxy = ((of or {}).get(PROXY) for of in (getattr(site, "network", None), wanted.network))
    if new_proxy not in {None, kept}:
        raise Problem(INVALID, "network must not have a new proxy here, which could read what is sent.")


def _version(host: str, if_match: str) -> str | None:
    """Return the version of the site that the request may change; None for any. Raises Problem."""
    name = _changeable(host)
    return etags.seen_if_given(if_match, sites.version_of(Site.objects.filter(name=name).first()))


def _settings(wanted: schemas.NewSettings) -> Mapping[str, Any]:
    read = {setting.name: setting.from_data(getattr(wanted, setting.data_name)) for setting in SETTINGS}
    return sites.all_settings(read)


def _shown(settings: Mapping[str, Any]) -> schemas.SiteSettings:
    shown = {setting.data_name: setting.as_data(settings[setting.name]) for setting in SETTINGS}
    return schemas.SiteSettings.model_construct(rate=settings["rate"], **shown)


def _listed(site: SiteStatus) -> schemas.ListedSite:
    row = site.row
    return schemas.ListedSite.model_construct(
        name=row.name,
        state=site.state,
        rate=rate_text(row.interval, row.written_rate),
        effective_interval_s=row.effective_interval.total_seconds(),
        burst=row.burst,
        max_concurrency=row.max_concurrency,
        backlog=site.backlog,
        seen_per_s=site.seen_per_s,
        share=site.share,
        clears_in_s=finite(site.clears_in_s),
        paused_until=row.paused_until,
        paused_by=site.pause and site.pause.by,
        paused_why=site.pause and site.pause.why,
        backed_off_until=row.backed_off_until,
        backoff_error=row.backoff_error,
        backoff_reason=row.backoff_reason,
        backoff_level=row.backoff_level,
        next_try=site.next_try,
        starts_out_of_time=row.starts_out_of_time,
        out_of_time_at=row.out_of_time_at,
    )


def _details(of: SiteDetails) -> schemas.SiteDetails:
    site = of.at.site
    return schemas.SiteDetails.model_construct(
        name=site.name,
        settings=_shown(sites.settings_of(site)),
        state=of.at.state,
        effective_interval_s=site.effective_interval.total_seconds(),
        crawl_delay_s=_seconds(site.crawl_delay),
        paused_until=site.paused_until,
        paused_by=of.pause and of.pause.by,
        paused_why=of.pause and of.pause.why,
        backed_off_until=site.backed_off_until,
        backoff_level=site.backoff_level,
        backoff_error=site.backoff_error,
        backoff_reason=site.backoff_reason,
        next_try=of.at.next_try,
        starts_out_of_time=site.starts_out_of_time,
        out_of_time_at=site.out_of_time_at,
        next_start=site.next_start,
        queued=of.expected.queued,
        starts_in_s=finite(of.expected.starts_in_s),
        clears_in_s=finite(of.expected.clears_in_s),
        last_error=of.last_error,
        shares=[schemas.WaitingShare(**share._asdict()) for share in of.shares],
        robots=[_robots(file) for file in of.robots],
    )


def _robots(file: RobotsFile) -> schemas.KnownRobots:
    return schemas.KnownRobots(
        origin=file.origin,
        state=file.state,
        crawl_delay_s=_seconds(file.crawl_delay),
        error=file.error,
        fetched_at=file.fetched_at,
        expires_at=file.expires_at,
    )


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
