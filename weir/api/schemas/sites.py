"""The API's data about sites."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from weir.api.schemas.values import Answer, Body, Count, Cursor, Digits, Flag, Next, Seconds, Text, Why
from weir.conf.texts.request_headers import MOST_HEADERS
from weir.conf.texts.request_query import MOST_PARAMETERS
from weir.conf.texts.share_weights import HEAVIEST, MOST_WEIGHTS
from weir.conf.texts.site_network import NAMES
from weir.ratelimit.changing.declared import SETTINGS, Kind
from weir.ratelimit.models import LONGEST_WRITTEN_RATE, MOST_REFUSING, REFUSING_FROM, REFUSING_TO
from weir.workers.fetches.reports.forecast import MOST_ADDED
from weir.workers.fetches.reports.site_list import LONGEST_SEARCH
from weir.workers.fetches.reports.site_status import COUNTED_OF_SHARE

Rate = Annotated[Text, Field(max_length=LONGEST_WRITTEN_RATE, description="3/s, 1/10s, 100/h, 1/day")]
Status = Annotated[Count, Field(ge=REFUSING_FROM, le=REFUSING_TO)]
Weight = Annotated[Count, Field(ge=1, le=HEAVIEST)]
NextTry = Annotated[
    datetime | None,
    Field(description="when a backed off or unreachable site is asked again; past: it may be now"),
]
PausedBy = Annotated[str | None, Field(description="null: it is not paused, or code has paused it")]
SiteState = Literal["paused", "unreachable", "backed off", "resting", "busy", "idle", "running"]


def _declared(name: str) -> Any:  # noqa: ANN401  the return type of pydantic's Field
    """Return a field with the limits and the description of a site's setting."""
    [setting] = [setting for setting in SETTINGS if setting.name == name]
    most_listed = {
        Kind.STATUSES: MOST_REFUSING,
        Kind.HEADERS: MOST_HEADERS,
        Kind.QUERY: MOST_PARAMETERS,
        Kind.NETWORK: len(NAMES),
        Kind.WEIGHTS: MOST_WEIGHTS,
    }
    least, largest = map(setting.as_data, setting.bounds or (None, None))
    return Field(ge=least, le=largest, max_length=most_listed.get(setting.kind), description=setting.api_help)


class SiteSettings(Body):
    """All settings of a site: what is left out has its default."""

    rate: Rate
    burst: Annotated[Count, _declared("burst")] = 1
    max_concurrency: Annotated[Count | None, _declared("max_concurrency")] = None
    grace_s: Annotated[Seconds | None, _declared("grace")] = None
    covers_subdomains: Annotated[Flag, _declared("covers_subdomains")] = False
    obeys_robots: Annotated[Flag | None, _declared("obeys_robots")] = None
    refusing: Annotated[list[Status] | None, _declared("refusing")] = None
    headers: Annotated[dict[str, str] | None, _declared("headers")] = None
    query: Annotated[dict[str, str] | None, _declared("query")] = None
    network: Annotated[dict[str, str] | None, _declared("network")] = None
    weights: Annotated[dict[Text, Weight] | None, _declared("weights")] = None


class NewSettings(SiteSettings):
    """The settings that a site is to have."""

    why: Why = ""


class SiteWithSettings(Answer):
    """A site and its settings, whose version the ETag is."""

    name: str
    settings: SiteSettings


class ListedSite(Answer):
    """A site of a list."""

    name: str
    state: SiteState
    rate: str
    effective_interval_s: float
    burst: int
    max_concurrency: int | None
    backlog: int
    seen_per_s: float
    share: float
    clears_in_s: float | None
    paused_until: datetime | None
    paused_by: PausedBy
    paused_why: str | None
    backed_off_until: datetime | None
    backoff_error: str
    backoff_reason: str
    backoff_level: int
    next_try: NextTry
    starts_out_of_time: int
    out_of_time_at: datetime | None


class SitePage(Answer):
    """Some sites of a list."""

    sites: list[ListedSite]
    next: Next
    looked_at: int | None
    is_whole: bool  # whether all of the queue was counted


class SiteListQuery(Body):
    """Which sites are meant, in which order, and from where on."""

    search: Annotated[
        str, Field(max_length=LONGEST_SEARCH, description="how names begin; with a dot before it, how they end")
    ] = ""
    state: Literal["", "paused", "unreachable", "backed off", "resting", "busy", "idle"] = ""
    sort: Literal["name", "backlog", "refusals"] = "name"
    after: Cursor = ""


class KnownRobots(Answer):
    """What is known of a robots.txt."""

    origin: str
    state: str
    crawl_delay_s: float | None
    error: str
    fetched_at: datetime
    expires_at: datetime


class WaitingShare(Answer):
    """A share that waits for its turns; the empty name is that of fetches without a share."""

    share: str
    weight: int
    queued: int


class SiteDetails(Answer):
    """All about one site. The ETag is the version of its settings."""

    name: str
    settings: SiteSettings
    state: SiteState
    effective_interval_s: float
    crawl_delay_s: float | None
    paused_until: datetime | None
    paused_by: PausedBy
    paused_why: str | None
    backed_off_until: datetime | None
    backoff_level: int
    backoff_error: str
    backoff_reason: str
    next_try: NextTry
    starts_out_of_time: int
    out_of_time_at: datetime | None
    next_start: datetime
    queued: int
    starts_in_s: float | None
    clears_in_s: float | None
    last_error: str
    shares: Annotated[
        list[WaitingShare],
        Field(description=f"those with most queued fetches, counted up to {COUNTED_OF_SHARE + 1:,}"),
    ]
    robots: list[KnownRobots]


class ForecastQuery(Body):
    """What is supposed."""

    add: Annotated[int, Digits, Field(ge=0, le=MOST_ADDED, description="so many fetches more")] = 0
    rate: Annotated[str, Field(max_length=LONGEST_WRITTEN_RATE, description="another rate: 5/s")] = ""


class SiteForecast(Answer):
    """What is to be expected; null seconds are infinite, or not known while the site does not answer (is_silent)."""

    site: str
    is_new: bool
    rate: str
    is_supposed: bool
    state: str
    is_silent: bool
    backoff_error: str
    queued: int
    not_due: int
    ahead: int
    added: int
    asks_robots: bool
    robots_error: str
    held_for_s: float | None
    starts_in_s: float | None
    clears_in_s: float | None
    now: datetime


class Slot(Answer):
    """One slot, and what became of it."""

    id: int
    start_in_s: float
    fate: str
    fetch_id: int | None
    run_id: int
    run_size: int
    lateness_ms: float | None


class NextStart(Answer):
    """A fetch that has not started."""

    id: int
    url: str
    start_in_s: float | None
    is_reserved: bool


class SiteSlots(Answer):
    """The slots of a site from a minute ago to the look-ahead, and what starts next."""

    slots: list[Slot]
    has_more: bool
    past_s: float
    ahead_s: float
    next_starts: list[NextStart]


class Pause(Body):
    """For how long a site is paused."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    lasts: Annotated[
        Text | None, Field(alias="for", max_length=30, description="30 (seconds), 10m, 2h, 1d; null: until resumed")
    ] = None
    why: Why = ""


class WhyQuery(Body):
    """The reason of a request that has no body."""

    why: Annotated[str, Field(max_length=2_000, description="the reason; the audit trail keeps it")] = ""


class Reason(Body):
    """The reason of a request that says nothing else."""

    why: Why = ""


class AskedRobots(Answer):
    """Of how many origins robots.txt is asked for again."""

    origins: int
