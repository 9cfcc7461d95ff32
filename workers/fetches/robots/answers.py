"""Answers: how the fetches of robots.txt files ended, and what follows for their origins and sites.

1. Each outcome is read: rules, everything allowed, unreachable (RFC 9309, 2.3.1), or forbidden by our settings. Only
   server and network errors make an origin unreachable. A redirect to nowhere means that there is no robots.txt.
2. The reading is stored (sql/note_robots.sql), and the sites get the Crawl-delays that now count (crawl_delays.py).
3. Fetches that waited are made due again (files.py), and dispatch is woken for the sites.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.ratelimit.sites import SitesLocked, sites_of
from weir.workers.fetches import backlog
from weir.workers.fetches.jobs import FetchOutcome
from weir.workers.fetches.models import FetchState, RobotsState
from weir.workers.fetches.robots import crawl_delays
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.robots.groups import group_for
from weir.workers.fetches.robots.rules import CLIENT_ERRORS, SUCCESS, origin_of, text_of
from weir.workers.fetches.robots.user_agent import product_token
from weir.workers.fetches.targets import parts_of

NOTE_ROBOTS = Statement("note_robots", commits=True)

log = get_logger(__name__)

LIFETIME = 86_400.0  # seconds for which an answer counts (RFC 9309, 2.4)
AHEAD = 3_600.0  # seconds before the end of its lifetime at which a robots.txt is asked for again
UNREACHABLE_FOR = 60.0  # seconds for which a robots.txt that could not be read counts as unreachable
SITES_PATIENCE_S = 0.5  # seconds that a store waits for other transactions if an origin has no site any more
REDIRECTION = range(300, 400)


@dataclass(frozen=True, kw_only=True, slots=True)
class RobotsReading:
    """The meaning of one outcome: the columns of RobotsFile that the outcome determines."""

    state: RobotsState
    rules: str = ""
    crawl_delay: timedelta | None = None
    error: str = ""


def read(outcome: FetchOutcome, user_agent: str) -> RobotsReading:
    """Return what the outcome means: 2xx rules, 3xx and 4xx everything allowed, everything else unreachable for now.

    A redirect is an outcome only if it leads nowhere: without a target, to something that is not a URL, or to ever more
    redirects. A redirect to a place that our settings forbid does not count as leading nowhere: there may be rules,
    which we do not read. If our settings forbid the origin itself, no fetch of the origin can reach it, or need try.
    """
    if outcome.is_forbidden:
        return RobotsReading(state=RobotsState.FORBIDDEN, error=outcome.error)
    if outcome.state == FetchState.FAILED and not outcome.leads_nowhere:
        return RobotsReading(state=RobotsState.UNREACHABLE, error=outcome.error)
    if outcome.leads_nowhere or outcome.status_code in REDIRECTION or outcome.status_code in CLIENT_ERRORS:
        return RobotsReading(state=RobotsState.ALLOWED)
    if outcome.status_code not in SUCCESS:
        return RobotsReading(state=RobotsState.UNREACHABLE, error=f"the site answered {outcome.status_code}")
    return _rules(outcome, product_token(user_agent))


def _rules(outcome: FetchOutcome, product: str) -> RobotsReading:
    text = text_of(outcome.content or b"")
    try:
        delay_s = group_for(text, product).delay_s
    except Exception as error:  # text from the internet: after any error, the writer must go on
        log.exception("robots_not_parsed", **outcome.named)
        return RobotsReading(state=RobotsState.UNREACHABLE, error=f"it cannot be parsed: {type(error).__name__}")
    delay = None if delay_s is None else max(timedelta(seconds=delay_s), timedelta.resolution)
    return RobotsReading(state=RobotsState.RULES, rules=text, crawl_delay=delay)


def note(ended: Iterable[tuple[str, FetchOutcome]]) -> None:
    """Store how fetches of robots.txt files ended: the URL and the outcome of each. The origin of the URL counts.

    It counts wherever redirects led. If nothing is stored, because the process dies before or a site is locked, the
    robots.txt is asked for again when a fetch needs it.
    """
    readings = {url: read(outcome, settings.WEIR_FETCH_USER_AGENT) for url, outcome in ended}
    if not readings:
        return
    hosts = [parts_of(url).authority for url in readings]
    try:
        sites = sites_of(set(hosts), patience_s=SITES_PATIENCE_S)
    except SitesLocked:
        log.warning("robots_not_noted", files=len(readings))
        return
    NOTE_ROBOTS(
        origin=[origin_of(url) for url in readings],
        site_id=[sites[host] for host in hosts],
        state=[reading.state for reading in readings.values()],
        rules=[reading.rules for reading in readings.values()],
        crawl_delay=[reading.crawl_delay for reading in readings.values()],
        error=[reading.error for reading in readings.values()],
        lifetime=LIFETIME,
        ahead=AHEAD,
        unreachable_for=UNREACHABLE_FOR,
    )
    crawl_delays.settle(set(sites.values()))
    robots_files.wake({origin_of(url): sites[host] for url, host in zip(readings, hosts, strict=True)})
    backlog.wake(sites.values())
