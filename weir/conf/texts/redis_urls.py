"""URLs of Redis, in particular those that name several servers: Sentinels, which know the primary, or cluster nodes.

    redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/0
    redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT

`rediss+...` means TLS to all these servers. The URL's user and password are for Redis. Those for the Sentinels are
parameters of the URL: `?sentinel_username=` and `?sentinel_password=`.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

SENTINEL, CLUSTER = "sentinel", "cluster"
SCHEMES: Final = {f"{scheme}+{kind}" for scheme in ("redis", "rediss") for kind in (SENTINEL, CLUSTER)}
EXAMPLES: Final = {
    SENTINEL: "redis+sentinel://:PASSWORD@HOST:26379,HOST:26379/SERVICE/0",
    CLUSTER: "redis+cluster://:PASSWORD@HOST:6379,HOST:6379",
}
_PORTS: Final = {SENTINEL: 26_379, CLUSTER: 6_379}
_HOST: Final = re.compile(r"(\[[^\[\]@]+\]|[^:\[\]@]+)(?::([0-9]{1,5}))?", re.ASCII)
_UNREADABLE: Final = "one of its hosts or ports cannot be read; in a password, write / # ? @ as %2F %23 %3F %40"
_UNREADABLE_ONE: Final = "its host or port cannot be read; in a password, write / # ? @ [ ] as %2F %23 %3F %40 %5B %5D"
_LAST_PORT: Final = 65_535
_ONE: Final = {"redis", "rediss", "unix"}


class RedisServers(NamedTuple):
    """Several servers that one URL names."""

    kind: str
    tls: bool
    login: str  # the part of the URL before the hosts, with its @
    hosts: list[tuple[str, int]]
    service: str
    database: int
    query: dict[str, str]
    of_sentinels: dict[str, str]  # username and password for the Sentinels

    def url_of(self, host: str, port: int) -> str:
        """Return the URL of one server with Redis' data, in redis-py's form."""
        place = f"[{host}]" if ":" in host else host
        query = f"?{urlencode(self.query)}" if self.query else ""
        return f"redis{'s' * self.tls}://{self.login}{place}:{port}/{self.database}{query}"


def kind_of(url: str) -> str:
    """Return SENTINEL or CLUSTER; "" if the URL names one server."""
    scheme = url.partition("://")[0]
    return scheme.partition("+")[2] if scheme in SCHEMES else ""


def split(url: str) -> SplitResult:
    """Return the parts of a URL that may name several hosts, as urlsplit does.

    Newer versions of Python's urlsplit refuse `a.example,[::1]:5432`, because it is not a host. Raises ValueError for a
    mistake in another part of the URL.
    """
    scheme, separator, rest = url.partition("://")
    end = min((rest.find(sign) for sign in "/?#" if sign in rest), default=len(rest))
    return urlsplit(f"{scheme}{separator}{rest[end:]}")._replace(netloc=rest[:end])


def parse(url: str) -> RedisServers:
    """Return the servers that the URL names. Raises ValueError, which says what is wrong without quoting the URL."""
    kind, parts = kind_of(url), split(url)
    login, at, hosts = parts.netloc.rpartition("@")
    if at and ":" not in login:
        raise ValueError("its password must stand behind a colon")
    if "@" in parts.path:  # the / belongs to the password, as does the text that was read as hosts
        raise ValueError(_UNREADABLE)
    service, database = _path(kind, parts)
    query = dict(parse_qsl(parts.query))
    prefix = f"{SENTINEL}_"
    return RedisServers(
        kind=kind,
        tls=parts.scheme.startswith("rediss"),
        login=login + at,
        hosts=[_host(host, _PORTS[kind]) for host in hosts.split(",")],
        service=service,
        database=database,
        query={name: text for name, text in query.items() if not name.startswith(prefix)},
        of_sentinels={name.removeprefix(prefix): text for name, text in query.items() if name.startswith(prefix)},
    )


def fault(url: str) -> str:
    """Return what is wrong with a URL of one or several servers, without quoting the URL; empty if nothing is wrong."""
    try:
        if kind_of(url):
            parse(url)
            return ""
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return str(error) if kind_of(url) else _UNREADABLE_ONE
    if parts.scheme not in _ONE or "://" not in url:
        return "it must begin with redis://"
    if parts.username and parts.password is None:  # a password that would be shown as a user name
        return "its password must stand behind a colon"
    if parts.scheme != "unix" and not parts.path.strip("/").isdecimal() and parts.path.strip("/"):
        return "what follows the last / must be a number"
    return ""


def is_one(url: str) -> bool:
    """Return whether the URL names one Redis server in a form that both redis-py and Kombu accept."""
    return url.partition("://")[0] in _ONE - {"unix"} and ";" not in url and not fault(url)


def _host(text: str, port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if not found or int(found[2] or port) > _LAST_PORT:
        raise ValueError(_UNREADABLE)
    return found[1].strip("[]"), int(found[2] or port)


def _path(kind: str, parts: SplitResult) -> tuple[str, int]:
    service, _, database = parts.path.strip("/").partition("/")
    if kind == CLUSTER:
        if service not in {"", "0"} or database:
            raise ValueError("a cluster has no other database than 0")
        return "", 0
    if not service:
        raise ValueError("it must name the Sentinels' service behind the last host")
    if database and not database.isdecimal():
        raise ValueError("what follows the service must be a number")
    return unquote(service), int(database or 0)
