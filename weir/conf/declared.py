"""The declaration of every setting of Weir's: its name, kind, default and meaning. All have a default that works.

They are Django settings of the project that Weir is installed in. Standalone Weir reads most of them from variables of
the environment, too (`project.environment`). A group's title and docstring, and the descriptions, are text of the
settings reference, in Markdown; .env.example shows them, too.
"""

from typing import Annotated

from pydantic import Field, SecretStr

from weir.conf.groups import Group
from weir.conf.kinds import (
    Count,
    Flag,
    Networks,
    Ports,
    PositiveCount,
    PositiveSeconds,
    Rate,
    RedisPrefix,
    RedisURL,
    Seconds,
    Shown,
    Unit,
    UserKeyName,
)
from weir.conf.mail import Mail
from weir.conf.operators import Monitoring, Operators

DAY_S = 86_400.0
LOCAL_REDIS = "redis://127.0.0.1:6379/0"


class Pace(Group):
    """How fast [sites](../glossary.md#site) are asked, where nothing else is set for them."""

    title = "Pace"

    WEIR_DEFAULT_RATE: Rate = Field(
        default="1/s",
        description="The rate of a site for which none was set: `COUNT/PERIOD`, such as `3/s`, `1/10s`, `100/h` or "
        "`1/day`. Sites that exist keep theirs.",
    )
    WEIR_LOOKAHEAD: Seconds = Field(
        default=3.0,
        description="How far ahead dispatch reserves [slots](../glossary.md#slot), from 1 s to 60 s. More makes longer "
        "runs and survives longer hiccups; a higher priority takes hold later, and a killed fetcher takes more slots "
        "with it.",
    )


class Fetches(Group):
    """What a killed fetcher held goes on after some ten seconds, at the latest when its lease ends.

    The [lease](../glossary.md#lease) is the sum of the three time-outs and ten seconds.
    """

    title = "Fetches"

    WEIR_FETCH_TIMEOUT: PositiveSeconds = Field(
        default=30.0, description="The time from the writing of the request to the end of the body."
    )
    WEIR_FETCH_CONNECT_TIMEOUT: PositiveSeconds = Field(
        default=10.0, description="The longest wait for a connection, TLS included."
    )
    WEIR_FETCH_DNS_TIMEOUT: PositiveSeconds = Field(default=5.0, description="The longest wait for an answer from DNS.")
    WEIR_FETCH_MAX_BODY: Annotated[PositiveCount, Unit("bytes")] = Field(
        default=5 * 2**20,
        description="The largest body, also after decompression. A larger one fails its fetch.",
    )
    WEIR_FETCH_KEEP_INCOMPLETE: Flag = Field(
        default=False,
        description="Keep what came of a body that is cut off, broken or larger than `WEIR_FETCH_MAX_BODY`: up to "
        "that size, decompressed as far as it can be. The fetch fails all the same; its column `incomplete` says why "
        "its body is not whole.",
    )
    WEIR_FETCH_MAX_IN_FLIGHT: PositiveCount = Field(
        default=5000,
        description="How many fetches one fetcher process holds at once: at most three fifths of them wait for "
        "answers, the others for their slots. A process with few file descriptors holds fewer.",
    )
    WEIR_FETCH_MAX_MEMORY: Annotated[PositiveCount, Unit("bytes")] = Field(
        default=256 * 2**20,
        description="The memory of one fetcher process for answers, from the first byte until they are stored. A site "
        "may have a quarter of it, and an eighth more in answers that wait. While it is used up, answers wait. While "
        "half of it is, only sites are asked that hold less than 32 KiB of it.",
    )
    WEIR_FETCH_MAX_PER_ADDRESS: PositiveCount = Field(
        default=100,
        description="How many requests of one fetcher process wait for answers from one IP address at once, however "
        "many sites it serves.",
    )
    WEIR_FETCH_USER_AGENT: str = Field(
        default="Weir/0.1",
        description="What sites see. Name yourself and a contact, in printable ASCII: "
        "`ShopBot/1.0 (+https://shop.example/bot)`. What stands before the first `/` or blank is the name by which a "
        "robots.txt calls us. RFC 9309 wants letters, `-` and `_` in it only; another name is found where a robots.txt "
        "has it as a whole word.",
    )
    WEIR_OBEY_ROBOTS: Flag = Field(
        default=True,
        description="Ask each origin's robots.txt what may be fetched, and how often. A site's `obeys_robots` "
        "overrides it.",
    )
    WEIR_FETCH_ALLOW_NETS: Networks = Field(
        default=[],
        description="Networks that may be fetched from although they are not public, on any port: "
        "`10.1.0.0/16,fd00::/8`.",
    )
    WEIR_FETCH_ALLOW_PORTS: Ports = Field(
        default=["80", "443", "8080", "8443"],
        description="The ports that may be fetched from, where no allowed network is: ports and ranges, "
        "`80,443,8000-8099`; `1-65535` is all of them. Others serve mail, databases and the like.",
    )


class Notifications(Group):
    """The first `migrate` makes the tables for these. Choose before it: nothing converts them afterwards."""

    title = "Notifications"

    WEIR_USER_KEY: Annotated[UserKeyName, Shown("the primary key of `AUTH_USER_MODEL`")] = Field(
        default="",
        description="What the keys of users are: `integer`, `uuid` or `text` (of 255 characters at most).",
    )
    WEIR_USER_FOREIGN_KEY: Flag = Field(
        default=False,
        description="Whether a notification refers to its user by a foreign key to `AUTH_USER_MODEL`. PostgreSQL then "
        "refuses notifications for users who do not exist, and checks each one. Where the keys are text, all columns "
        "have the collation of the user model's key, which must be deterministic.",
    )
    WEIR_UNREAD_CAP: Count = Field(
        default=0,
        description="How many unread notifications a user may have; soon after one more came, the oldest unread one is "
        "deleted. 0 = any number.",
    )


class Retention(Group):
    """How long rows are kept, the longest wait that a site may ask for, and the longest statement."""

    title = "Retention"

    WEIR_AUDIT_RETENTION: PositiveSeconds = Field(
        default=365 * DAY_S,
        description="How long the audit trail is kept (a year); entries younger than 30 days are never deleted.",
    )
    WEIR_FETCH_RETENTION: PositiveSeconds = Field(
        default=30 * DAY_S, description="How long results are kept after their end (30 days)."
    )
    WEIR_HISTORY_RETENTION: PositiveSeconds = Field(
        default=7 * DAY_S,
        description="How long the numbers of each minute are kept, of which charts are made (7 days). Totals are kept "
        "for ever.",
    )
    WEIR_MAIL_CONTENT_RETENTION: PositiveSeconds = Field(
        default=30 * DAY_S,
        description="How long the content of an e-mail that has ended is kept after it was rendered (30 days). Its "
        "row, with the content's hash, is kept for ever.",
    )
    WEIR_NOTIFICATION_RETENTION: PositiveSeconds = Field(
        default=90 * DAY_S,
        description="How long notifications are kept after they were read (90 days). Unread ones are kept for ever.",
    )
    WEIR_RETRY_AFTER_MAX: PositiveSeconds = Field(
        default=DAY_S,
        description="The longest `Retry-After`, or reset of a quota, that is obeyed; longer ones are cut to it.",
    )
    WEIR_SITE_RETENTION: PositiveSeconds = Field(
        default=30 * DAY_S,
        description="How long sites are kept that nobody set and where nothing starts any more (30 days).",
    )
    WEIR_SLOT_RETENTION: PositiveSeconds = Field(default=3600.0, description="How long past slots are kept.")
    WEIR_STATEMENT_TIMEOUT: Seconds = Field(
        default=60.0,
        description="The time after which PostgreSQL ends a statement; 0 = never, for a migration of large tables.",
    )


class Servers(Group):
    """PostgreSQL is that of `DATABASES["default"]`. Redis is named below, or by `REDIS_URL`."""

    title = "Servers"

    WEIR_TRANSACTION_POOLING: Flag = Field(
        default=False,
        description="Whether a pooler stands before PostgreSQL that gives each transaction another session, such as "
        "PgBouncer with `pool_mode = transaction` ([how to](../how-to/use-a-pooler.md)).",
    )
    WEIR_REDIS_PREFIX: Annotated[RedisPrefix, Shown("none, but `weir` for unread numbers")] = Field(
        default="",
        description="What all keys and channels in Redis begin with: those of unread numbers with `{PREFIX:`, and, "
        "standalone, Celery's with `PREFIX:`. Installations with different prefixes may share a Redis database. A copy "
        "of a whole PostgreSQL server, such as a snapshot of its disk, needs another prefix or Redis. To set or change "
        "it hides the messages that wait: [how to go about it](../how-to/use-real-servers.md#a-redis-for-several).",
    )


class OnlySettings(Group):
    """These are settings of your project, and no variables: standalone Weir has `REDIS_URL` for the first."""

    title = "Settings without a variable"

    WEIR_REDIS_URL: Annotated[
        RedisURL,
        Shown(f"the setting `REDIS_URL`, or `CELERY_BROKER_URL` if that is one Redis, or `{LOCAL_REDIS}`"),
    ] = Field(
        default=SecretStr(LOCAL_REDIS),
        description="The Valkey or Redis that holds the [deltas](../glossary.md#delta) of unread numbers, in all the "
        "forms of `REDIS_URL`. Messages are sent by your Celery app, whose broker may be another server.",
    )
    WEIR_METRICS_FOR_LOOPBACK: Flag = Field(
        default=False,
        description="Whether `GET /metrics` answers clients of the same host where `WEIR_METRICS_TOKEN` is empty.",
    )
    WEIR_LOGOUT_URL: str = Field(
        default="",
        description="Where the operators' pages sign out: a path, or the name of a URL. Empty = they have no button "
        "for that.",
    )


class Declared(Servers, Retention, Operators, Monitoring, Notifications, Mail, Fetches, Pace):
    """What variables may set, too. Pydantic takes the fields of the last base first."""


class Settings(OnlySettings, Declared):
    """Every setting of Weir's, with the type that `weir.conf.settings` has it in."""


GROUPS: tuple[type[Group], ...] = (
    Pace,
    Fetches,
    Mail,
    Notifications,
    Monitoring,
    Operators,
    Retention,
    Servers,
)
