"""The declaration of each of Weir's settings: its name, kind, default and meaning. Every default works.

These are Django settings of the project in which Weir is installed. Standalone Weir also reads most of them from
environment variables (`project.environment`). The settings reference and .env.example contain the titles and docstrings
of the groups, and the descriptions of the settings, as Markdown.
"""

from typing import Annotated

from pydantic import Field, SecretStr

from weir.conf.effects import Effects
from weir.conf.groups import SettingsGroup
from weir.conf.kinds import (
    Bounds,
    Count,
    Flag,
    HttpsOrigin,
    Networks,
    Path,
    Ports,
    PositiveCount,
    PositiveSeconds,
    Proxies,
    Rate,
    RedisPrefix,
    RedisURL,
    Seconds,
    SecretNames,
    Secrets,
    Shown,
    SignatureAgentForm,
    Unit,
    UserKeyName,
)
from weir.conf.mail import Mail
from weir.conf.operators import Monitoring, Operators

DAY_S = 86_400.0
LOCAL_REDIS = "redis://127.0.0.1:6379/0"


class Pace(SettingsGroup):
    """The pace of [sites](../glossary.md#site)."""

    title = "Pace"

    WEIR_DEFAULT_RATE: Rate = Field(
        default="1/s",
        description="The rate of new sites for which none was set, such as `1/10s`.",
    )
    WEIR_LOOKAHEAD: Annotated[Seconds, Bounds("from 1 to 60")] = Field(
        default=3.0,
        description="How far ahead dispatch reserves [slots](../glossary.md#slot), from 1 s to 60 s. With more, "
        "hiccups do less harm, a higher priority takes effect later, and a killed fetcher loses more slots.",
    )


class Fetches(SettingsGroup):
    """What a killed fetcher held goes on after some ten seconds, at the latest when its lease ends.

    The [lease](../glossary.md#lease) is the sum of the three time-outs and ten seconds.
    """

    title = "Fetches"

    WEIR_FETCH_TIMEOUT: PositiveSeconds = Field(
        default=30.0, description="From writing the request to the end of the body."
    )
    WEIR_FETCH_CONNECT_TIMEOUT: PositiveSeconds = Field(default=10.0, description="For a connection, TLS included.")
    WEIR_FETCH_DNS_TIMEOUT: PositiveSeconds = Field(default=5.0, description="For an answer from DNS.")
    WEIR_FETCH_MAX_BODY: Annotated[PositiveCount, Unit("bytes")] = Field(
        default=5 * 2**20,
        description="The largest body, also decompressed. A larger one fails its fetch.",
    )
    WEIR_FETCH_MAX_REQUEST_BODY: Annotated[PositiveCount, Unit("bytes")] = Field(
        default=2**20, description="The largest body of a request."
    )
    WEIR_FETCH_KEEP_INCOMPLETE: Flag = Field(
        default=False,
        description="Keep what came of a body that is cut off, broken or too large. The fetch still fails; its column "
        "`incomplete` says why.",
    )
    WEIR_FETCH_MAX_IN_FLIGHT: PositiveCount = Field(
        default=5000,
        description="How many fetches a fetcher process holds, fewer with few file descriptors. At most three fifths "
        "of them wait for answers, the others for slots.",
    )
    WEIR_FETCH_MAX_MEMORY: Annotated[PositiveCount, Unit("bytes")] = Field(
        default=256 * 2**20,
        description="The memory of a fetcher process for answers that are not stored yet "
        "([details](../explanation/wire.md#what-an-answer-may-cost)).",
    )
    WEIR_FETCH_MAX_PER_ADDRESS: PositiveCount = Field(
        default=100,
        description="How many requests of a fetcher process to one IP address wait for answers.",
    )
    WEIR_FETCH_STORAGE: str = Field(
        default="",
        description="The storage in `STORAGES` that gets [large bodies](../how-to/keep-bodies.md). Empty: PostgreSQL "
        "has all.",
    )
    WEIR_FETCH_STORAGE_FROM: Annotated[PositiveCount, Unit("bytes")] = Field(
        default=2**20, description="From this size on, a body goes to the storage."
    )
    WEIR_FETCH_USER_AGENT: str = Field(
        default="Weir/0.1",
        description="What sites see. Name yourself and a contact, in printable ASCII: `ShopBot/1.0 "
        "(+https://shop.example/bot)`. The part before the `/`, of letters, `-` and `_`, is our name in a robots.txt "
        "(RFC 9309).",
    )
    WEIR_SECRETS_DIR: Path = Field(
        default="",
        description="A folder with a file for each secret that [headers](../how-to/fetch-from-an-api.md) name.",
    )
    WEIR_SIGNATURE_AGENT: HttpsOrigin = Field(
        default="",
        description="The origin at which sites find the keys of [signed requests](../how-to/sign-requests.md): "
        "`https://bot.example.com`. Empty: no request is signed.",
    )
    WEIR_SIGNATURE_KEYS: SecretNames = Field(
        default=[],
        description="Secrets with the keys: the first signs, all are published.",
    )
    WEIR_SIGNATURE_AGENT_FORM: SignatureAgentForm = Field(
        default="string",
        description="How requests name that origin: as a `string`, which Cloudflare's documentation asks for, or as a "
        "`dictionary`, as in the IETF's newer draft.",
    )
    WEIR_OBEY_ROBOTS: Flag = Field(
        default=True,
        description="Obey each origin's robots.txt. A site's `obeys_robots` overrides it.",
    )
    WEIR_FETCH_ALLOW_NETS: Networks = Field(
        default=[],
        description="Networks that may be fetched from, on any port, although they are not public: "
        "`10.1.0.0/16,fd00::/8`.",
    )
    WEIR_FETCH_ALLOW_PORTS: Ports = Field(
        default=["80", "443", "8080", "8443"],
        description="The ports that may be fetched from outside of them: `80,443,8000-8099`; `1-65535` is all.",
    )
    WEIR_FETCH_PROXIES: Proxies = Field(
        default=[],
        description="The proxies that [sites](../how-to/set-rates.md#a-sites-network) may be fetched through: "
        "`proxy.example.com:3128`. Weir cannot check to which address a proxy connects.",
    )


class Notifications(SettingsGroup):
    """Choose the first two before the first `migrate`, which makes their tables: nothing converts them afterwards."""

    title = "Notifications"

    WEIR_USER_KEY: Annotated[UserKeyName, Shown("the primary key of `AUTH_USER_MODEL`")] = Field(
        default="",
        description="The type of users' keys: `integer`, `uuid` or `text` (at most 255 characters).",
    )
    WEIR_USER_FOREIGN_KEY: Flag = Field(
        default=False,
        description="Notifications have a foreign key to `AUTH_USER_MODEL`: PostgreSQL refuses those for unknown "
        "users. Text keys then have the user model's collation, which must be deterministic.",
    )
    WEIR_UNREAD_CAP: Count = Field(
        default=0,
        description="How many unread notifications a user may have: the oldest in excess are soon deleted. 0 = any "
        "number.",
    )


class Retention(SettingsGroup):
    """For how long rows are kept, and two other limits."""

    title = "Retention"

    WEIR_AUDIT_RETENTION: PositiveSeconds = Field(
        default=365 * DAY_S,
        description="The audit trail (a year; at least 30 days).",
    )
    WEIR_EVENT_RETENTION: Seconds = Field(
        default=0.0,
        description="Ends, as [events](../how-to/use-the-api.md#learn-what-has-ended). 0 = no events are kept.",
    )
    WEIR_EFFECT_RETENTION: Seconds = Field(
        default=0.0,
        description="Effects, after their end, but unknown ones: `once` with the key of a deleted one does it again. "
        "0 = for ever.",
    )
    WEIR_FETCH_RETENTION: PositiveSeconds = Field(default=30 * DAY_S, description="Results, after their end (30 days).")
    WEIR_FETCH_BODY_RETENTION: Seconds = Field(
        default=0.0,
        description="The bodies of results, after the end of their fetches. 0 = as long as the results.",
    )
    WEIR_HISTORY_RETENTION: PositiveSeconds = Field(
        default=7 * DAY_S,
        description="The numbers of each minute (7 days). Totals are kept for ever.",
    )
    WEIR_MAIL_CONTENT_RETENTION: PositiveSeconds = Field(
        default=30 * DAY_S,
        description="The content of ended e-mails, after it was rendered (30 days). Their rows are kept for ever.",
    )
    WEIR_NOTIFICATION_RETENTION: PositiveSeconds = Field(
        default=90 * DAY_S,
        description="Notifications, after they were read (90 days). Unread ones are kept for ever.",
    )
    WEIR_RETRY_AFTER_MAX: PositiveSeconds = Field(
        default=DAY_S,
        description="The longest `Retry-After`, or reset of a quota, that is obeyed; longer ones are cut.",
    )
    WEIR_SITE_RETENTION: PositiveSeconds = Field(
        default=30 * DAY_S,
        description="Unused sites that no person has set (30 days).",
    )
    WEIR_SLOT_RETENTION: PositiveSeconds = Field(default=3600.0, description="Past slots.")
    WEIR_STATEMENT_TIMEOUT: Seconds = Field(
        default=60.0,
        description="After this time PostgreSQL ends a statement. 0 = never, for a migration of large tables.",
    )


class Servers(SettingsGroup):
    """PostgreSQL is that of `DATABASES["default"]`."""

    title = "Servers"

    WEIR_TRANSACTION_POOLING: Flag = Field(
        default=False,
        description="PostgreSQL is behind a pooler such as PgBouncer with `pool_mode = transaction` "
        "([how to](../how-to/use-a-pooler.md)).",
    )
    WEIR_REDIS_PREFIX: Annotated[RedisPrefix, Shown("none, but `weir` for unread numbers")] = Field(
        default="",
        description="The beginning of all keys and channels in Redis. Installations that share a Redis database need "
        "different ones, a copy of a whole PostgreSQL server, too. A change hides the messages that wait "
        "([how to](../how-to/use-real-servers.md#a-redis-for-several)).",
    )


class OnlySettings(SettingsGroup):
    """Standalone, `REDIS_URL` stands for the first."""

    title = "Settings without a variable"

    WEIR_REDIS_URL: Annotated[
        RedisURL,
        Shown(f"the setting `REDIS_URL`, or `CELERY_BROKER_URL` if that is one Redis, or `{LOCAL_REDIS}`"),
    ] = Field(
        default=SecretStr(LOCAL_REDIS),
        description="The Valkey or Redis that holds the [deltas](../glossary.md#delta) of unread numbers. The broker "
        "of your Celery app may be another server.",
    )
    WEIR_METRICS_FOR_LOOPBACK: Flag = Field(
        default=False,
        description="Without a token, `GET /metrics` answers clients of the same host.",
    )
    WEIR_SECRETS: Secrets = Field(
        default={},
        description="Secrets that [headers and queries](../how-to/fetch-from-an-api.md) name, by their names.",
    )
    WEIR_LOGOUT_URL: str = Field(
        default="",
        description="Where the operators' pages sign out: a path, or the name of a URL.",
    )


class Declared(Servers, Retention, Operators, Monitoring, Notifications, Effects, Mail, Fetches, Pace):
    """The settings that variables may set, too. Pydantic takes the fields of the last base first."""


class Settings(OnlySettings, Declared):
    """Every setting of Weir's, with its type in `weir.conf.settings`."""


GROUPS: tuple[type[SettingsGroup], ...] = (
    Pace,
    Fetches,
    Mail,
    Effects,
    Notifications,
    Monitoring,
    Operators,
    Retention,
    Servers,
)
