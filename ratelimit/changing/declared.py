"""The settings of a site beside its rate. Each setting is a column of Site, and is declared here once.

These users read the declarations: `set_rate`, for what it checks and stores, and for which changes it recalls slots;
`manage.py sites`, for its options and output; the form and the page of operators; the API, for the limits, descriptions
and values of its schema; the audit trail, for its entries; and the version of the settings (ETag).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final

from weir.conf.texts.request_headers import usable_headers, written_headers
from weir.conf.texts.request_query import usable_query, written_query
from weir.conf.texts.share_weights import usable_weights, written_weights
from weir.conf.texts.site_network import written_network
from weir.ratelimit.changing.statuses import written
from weir.ratelimit.changing.values import allowed_network, usable_refusing
from weir.ratelimit.models import LONGEST_GRACE, MOST_SLOTS, SHORTEST_GRACE, Site

LARGEST: Final = 2**31 - 1  # the largest value of PostgreSQL's type integer


class Kind(Enum):
    """The kind of a setting's values. Pages, commands and API each read and write all settings of a kind alike."""

    COUNT = "count"  # from 1 on
    DURATION = "duration"
    FLAG = "flag"
    STATUSES = "statuses"
    HEADERS = "headers"
    QUERY = "query"
    NETWORK = "network"
    WEIGHTS = "weights"


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteSetting:
    """A setting: its column, its allowed values, and the texts about it. Pure."""

    name: str  # of the column, of set_rate's parameter, of the form's field, and in the audit trail
    kind: Kind
    default: object = None  # None: the column is NULL
    bounds: tuple[Any, Any] | None = None  # the least and the greatest allowed value
    range: str = ""  # the bounds in words
    recalls: bool = True  # a change recalls slots, because their holders rely on the setting
    effective: str = ""  # the attribute of Site with the value in effect, if that is not the column
    option: str = ""  # the command's option, if that is not made from the name
    option_help: str
    undo: tuple[str, str] | None = None  # the option that restores the default, and its help
    label: str
    form_help: str = ""
    api_help: str | None = None
    heading: str = ""  # the heading on the page of a site, if that is not the label
    shown: Callable[[Site], str]  # returns the text on the page
    told: Callable[[Site], str]  # returns the text in the command's output; "" for the default

    @property
    def data_name(self) -> str:
        """Return the setting's name in JSON, which has durations in seconds."""
        return f"{self.name}_s" if self.kind is Kind.DURATION else self.name

    def as_data(self, value: object) -> Any:  # noqa: ANN401  of any kind
        """Return the value for JSON."""
        return value.total_seconds() if isinstance(value, timedelta) else value

    def from_data(self, value: Any) -> object:  # noqa: ANN401  as above
        """Return the value of Python for a value from JSON."""
        return timedelta(seconds=value) if self.kind is Kind.DURATION and value is not None else value

    def usable(self, value: Any) -> object:  # noqa: ANN401  as above
        """Return the value as it is stored. Raises ValueError for a value that no site can have."""
        if self.kind is Kind.STATUSES:
            return usable_refusing(value)
        if self.kind is Kind.HEADERS:
            return usable_headers(value) or None
        if self.kind is Kind.QUERY:
            return usable_query(value) or None
        if self.kind is Kind.NETWORK:
            return allowed_network(value) or None
        if self.kind is Kind.WEIGHTS:
            return usable_weights(value) or None
        least, most = self.bounds or (value, value)
        if not least <= value <= most:
            bound = f"at least {least}" if value < least else f"at most {most}"
            raise ValueError(f"{self.name} must be {self.range or bound}, not {value}.")
        return value


# In the order of the form, of the API and of JSON.
SETTINGS: Final = (
    SiteSetting(
        name="burst",
        kind=Kind.COUNT,
        default=1,
        bounds=(1, MOST_SLOTS),
        option_help="starts that may follow each other at once",
        label="Burst",
        form_help="Starts that may follow each other at once.",
        api_help="starts that may follow each other at once",
        shown=lambda site: str(site.burst),
        told=lambda site: f"burst {site.burst}" if site.burst > 1 else "",
    ),
    SiteSetting(
        name="max_concurrency",
        kind=Kind.COUNT,
        bounds=(1, LARGEST),
        option_help="most fetches in flight at once",
        undo=("--no-max-concurrency", "any number of fetches in flight at once"),
        label="In flight at once",
        form_help="At most so many fetches; empty: any number.",
        api_help="fetches in flight at once; null: any number",
        shown=lambda site: str(site.max_concurrency or "any number"),
        told=lambda site: f"at most {site.max_concurrency} at once" if site.max_concurrency else "",
    ),
    SiteSetting(
        name="grace",
        kind=Kind.DURATION,
        bounds=(SHORTEST_GRACE, LONGEST_GRACE),
        range="between 15 ms and one day",
        effective="effective_grace",
        option_help="how late a start may be: 15ms to 1d",
        undo=("--default-grace", "as late as fits the rate: 25 to 250 ms"),
        label="Grace: how late a start may be",
        form_help="15ms to 1d; empty: as fits the rate.",
        api_help="how late a start may be; null: as fits the rate",
        shown=lambda site: f"{site.effective_grace.total_seconds() * 1000:.0f} ms{'' if site.grace else ' (default)'}",
        told=lambda site: f"grace {site.grace.total_seconds():g} s" if site.grace else "",
    ),
    SiteSetting(
        name="covers_subdomains",
        kind=Kind.FLAG,
        default=False,
        recalls=False,  # a split (set_rate) recalls the slots of the sites whose hosts change
        option_help="whether hosts below this one share its rate, unless they have a site of their own",
        label="Hosts below it share its rate",
        heading="Subdomains",
        shown=lambda site: "share its rate" if site.covers_subdomains else "have sites of their own",
        told=lambda site: "covers its subdomains" if site.covers_subdomains else "",
    ),
    SiteSetting(
        name="obeys_robots",
        kind=Kind.FLAG,
        option="--obey-robots",
        option_help="whether robots.txt is obeyed there",
        undo=("--default-robots", "obeyed or not as WEIR_OBEY_ROBOTS says"),
        label="Obeys robots.txt",
        form_help="As set for all: as WEIR_OBEY_ROBOTS says.",
        api_help="null: as WEIR_OBEY_ROBOTS says",
        heading="robots.txt",
        shown=lambda site: {True: "obeyed", False: "not obeyed", None: "as WEIR_OBEY_ROBOTS says"}[site.obeys_robots],
        told=lambda site: {True: "obeys robots.txt", False: "does not obey robots.txt", None: ""}[site.obeys_robots],
    ),
    SiteSetting(
        name="refusing",
        kind=Kind.STATUSES,
        option_help="statuses by which it refuses more requests, beside 429 and 503, with or without a Retry-After",
        undo=("--default-refusing", "429 and 503; and 403, 413, 420, 502, 529 and 999 where they say until when"),
        label="Refuses by",
        form_help="Statuses beside 429 and 503, such as 403, 999; empty: as usual, some others with a Retry-After.",
        api_help="statuses by which it refuses more requests, beside 429 and 503; null: as usual",
        shown=lambda site: written(site.refusing or []) or "429, 503, and some others with a Retry-After",
        told=lambda site: f"refuses by {written(site.refusing)}" if site.refusing else "",
    ),
    SiteSetting(
        name="headers",
        kind=Kind.HEADERS,
        recalls=False,  # each claim reads them
        option="--header",
        option_help="a header of the requests, such as 'Authorization: Bearer {secret:NAME}'; repeat it for more",
        undo=("--no-headers", "no headers beside Weir's own"),
        label="Headers",
        form_help="A line for each: Authorization: Bearer {secret:NAME}.",
        api_help="headers of the requests, by name; a new placeholder of a secret is refused",
        shown=lambda site: "\n".join(written_headers(site.headers or {})) or "none of its own",
        told=lambda site: f"headers {', '.join(site.headers)}" if site.headers else "",
    ),
    SiteSetting(
        name="query",
        kind=Kind.QUERY,
        recalls=False,  # as for headers
        option_help="a parameter that each URL gets, such as 'key={secret:NAME}'; repeat it for more",
        undo=("--no-query", "no parameters beside those of the URLs"),
        label="Query",
        form_help="A line for each parameter that each URL gets: key={secret:NAME}.",
        api_help="parameters that each URL gets, by name; a new placeholder of a secret is refused",
        shown=lambda site: "\n".join(written_query(site.query or {})) or "as the URLs have it",
        told=lambda site: f"query {', '.join(site.query)}" if site.query else "",
    ),
    SiteSetting(
        name="network",
        kind=Kind.NETWORK,
        recalls=False,  # as for headers
        option_help="proxy=http://HOST:PORT, ca={secret:NAME} or certificate={secret:NAME}; repeat it for more",
        undo=("--no-network", "no proxy, the system's authorities, and no certificate"),
        label="Network",
        form_help="A line for each: proxy=http://proxy.example.com:3128, ca={secret:NAME}, certificate={secret:NAME}.",
        api_help="proxy, ca and certificate; a new proxy, or a new placeholder of a secret, is refused",
        shown=lambda site: "\n".join(written_network(site.network or {})) or "as for all",
        told=lambda site: f"network {', '.join(site.network)}" if site.network else "",
    ),
    SiteSetting(
        name="weights",
        kind=Kind.WEIGHTS,
        recalls=False,  # the next dispatch reads them
        option="--weight",
        option_help="how many fetches a share gets in each of its turns, such as tenant-7=3; repeat it for more",
        undo=("--no-weights", "one fetch in each turn of each share"),
        label="Weights",
        form_help="A line for each share that gets more than one fetch in its turn: tenant-7=3.",
        api_help="how many fetches a share gets in each of its turns, by name; of all others 1",
        shown=lambda site: "\n".join(written_weights(site.weights or {})) or "all shares alike",
        told=lambda site: f"weights {', '.join(written_weights(site.weights))}" if site.weights else "",
    ),
)
# The command names robots.txt last.
IN_COMMANDS: Final = sorted(SETTINGS, key=lambda setting: setting.name == "obeys_robots")


def usable(named: Mapping[str, object], default: object) -> dict[str, object]:
    """Return the value to store for each setting in `named` that is not None. Raises ValueError.

    A setting that is given as `default` gets its default.
    """
    return {
        setting.name: setting.default if value is default else setting.usable(value)
        for setting in SETTINGS
        if (value := named[setting.name]) is not None
    }
