"""The URLs of the servers: what is wrong with a URL, what it contains, and which parts of it are secret.

No sentence quotes any part of a URL, because in a URL that cannot be parsed the password may be anywhere.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any
from urllib.parse import SplitResult, parse_qs, parse_qsl, quote, unquote, urlencode, urlsplit

import kombu
import redis
from kombu.transport import TRANSPORT_ALIASES
from redis.backoff import NoBackoff
from redis.retry import Retry

from weir.conf.texts import redis_urls as several

EXAMPLES = {
    "DATABASE_URL": "postgresql://USER:PASSWORD@HOST:5432/NAME",
    "REDIS_URL": "redis://:PASSWORD@HOST:6379/0",
    "CELERY_BROKER_URL": "redis://:PASSWORD@HOST:6379/0",
}
SCHEMES = {"REDIS_URL": {"redis", "rediss", "unix"} | several.SCHEMES}
REDIS_SCHEMES = {"redis", "rediss"}
DATABASE_SCHEMES = {"postgres", "postgresql", "psql", "pgsql"}

_UNREADABLE = "its host or port cannot be read; in a password, write / # ? @ [ ] as %2F %23 %3F %40 %5B %5D"
_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]*))?", re.ASCII)
_LAST_PORT = 65_535
# Query parameters that are settings of Django's connection. All others are libpq's.
_DJANGOS = {"ATOMIC_REQUESTS", "AUTOCOMMIT", "CONN_HEALTH_CHECKS", "CONN_MAX_AGE", "DISABLE_SERVER_SIDE_CURSORS"}
# Web code waits 1.5 s at most for a broker that is away. The same holds if none of its Sentinels answers.
_ALL_SENTINELS_S, _ONE_SENTINEL_S = 1.4, 0.5
_ONCE = Retry(NoBackoff(), 0)  # redis-py would try each Sentinel four times
_WORDS = {"true": True, "false": False, "none": None}
_POOL = {"true": True, "false": False}  # a URL switches Django's pool on or off; its sizes belong in the settings


def malformed(name: str, url: str) -> str | None:
    """Return the sentence about the URL of this variable; None if it can be used."""
    if name == "DATABASE_URL" and _scheme(url) not in DATABASE_SCHEMES:
        return (
            f"{name} does not name a PostgreSQL database: write {EXAMPLES[name]}, "
            "or unset it to use the embedded server."
        )
    if name == "REDIS_URL" and (kind := several.kind_of(url)):
        fault, example = _fault_of_several(url), several.EXAMPLES[kind]
    else:
        fault, example = _database_fault(url) if name == "DATABASE_URL" else _fault(name, url), EXAMPLES[name]
    return f"{name} is malformed ({fault}): write {example}." if fault else None


def broker(url: str, redis_url: str) -> str | None:
    """Return the broker's URL in Kombu's spelling: CELERY_BROKER_URL, or else REDIS_URL.

    Sentinels are `sentinel://`, a Unix socket is `redis+socket://`. None if Celery cannot use what REDIS_URL names:
    a cluster, or Sentinels with TLS.
    """
    if url or not (kind := several.kind_of(redis_url)):
        found = url or redis_url
        return _socket(found) if _scheme(found) == "unix" else found
    servers = several.parse(redis_url)
    if kind == several.CLUSTER or servers.tls or servers.query:
        return None
    return ";".join(
        f"sentinel://{servers.login}{f'[{host}]' if ':' in host else host}:{port}/{servers.database}"
        for host, port in servers.hosts
    )


def broker_options(url: str, redis_url: str) -> dict[str, Any]:
    """Return the transport options with which Celery asks Sentinels for the primary; none without Sentinels."""
    if url or several.kind_of(redis_url) != several.SENTINEL:
        return {"sentinel_kwargs": asking(len(url.split(";")))} if _scheme(url) == "sentinel" else {}
    servers = several.parse(redis_url)
    return {"master_name": servers.service, "sentinel_kwargs": asking(len(servers.hosts)) | servers.of_sentinels}


def joined(named: str | Sequence[str]) -> str:
    """Return one text of a broker's URL, or of several in a list: Celery takes both forms."""
    return named if isinstance(named, str) else ";".join(named)


def verified(url: str, redis_url: str = "") -> str:
    """Return the broker's URL as `broker` does, with each TLS server verified; empty if there is none."""
    return ";".join(map(with_verified_tls, (broker(url, redis_url) or "").split(";")))


def asking(sentinels: int) -> dict[str, Any]:
    """Return Celery's options for each of this many Sentinels: it asks each once, and soon asks the next."""
    seconds = min(_ONE_SENTINEL_S, _ALL_SENTINELS_S / sentinels)
    return {"socket_connect_timeout": seconds, "socket_timeout": seconds, "retry": _ONCE}


def refusal(url: str, redis_url: str) -> str | None:
    """Return the sentence about a missing broker; None if the two URLs name one."""
    if broker(url, redis_url) is not None:
        return None
    return (
        "CELERY_BROKER_URL must be set: REDIS_URL names a cluster, or Sentinels with TLS or query parameters of Redis, "
        "which Celery cannot use as its broker."
    )


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL; if it names several brokers, separated by semicolons, those of the first."""
    return several.split(url.partition(";")[0])


def database(url: str) -> dict[str, Any]:
    """Return Django's settings of the database that a well-formed DATABASE_URL names.

    Several hosts may be separated by commas. A path that begins with two slashes names the folder of a Unix socket, and
    then the database. The query parameters `host` and `port` replace those of the URL. Other parameters become OPTIONS,
    which Django passes to libpq, unless they are Django's own (`conn_max_age`, `pool`).
    """
    parts = _database_parts(url)
    hosts, ports = zip(*_hosts(parts), strict=True)
    folder, name = _folder_and_name(unquote(parts.path[1:]))
    options = {key: int(text) if text.isdecimal() else text for key, text in parse_qsl(parts.query)}
    djangos = {key for key in options if key.upper() in _DJANGOS}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": str(options.pop("host", folder or ",".join(hosts))),
        "PORT": str(options.pop("port", ",".join(ports) if any(ports) else "")),
        **{key.upper(): _WORDS.get(str(options[key]).lower(), options[key]) for key in djangos},
        "OPTIONS": {
            key: _POOL.get(str(value).lower(), value) if key == "pool" else value
            for key, value in options.items()
            if key not in djangos
        },
    }


def with_verified_tls(url: str) -> str:
    """Return a broker's URL that makes Kombu verify the server's certificate, unless the URL has `ssl_cert_reqs`.

    Without that parameter, Kombu verifies nothing. `ssl_ca_certs=/PATH` in the URL names a CA of one's own.
    """
    parts = urlsplit(url.strip())
    query = parse_qsl(parts.query)  # without parameters that have no value, which Kombu ignores, too
    if parts.scheme != "rediss" or any(name == "ssl_cert_reqs" for name, _ in query):
        return url
    return parts._replace(query=urlencode([*query, ("ssl_cert_reqs", "required")]), fragment="").geturl()


def secrets(*urls: str) -> list[str]:
    """Return every spelling of the passwords in these URLs, however malformed they are."""
    raw = [*chain.from_iterable(map(_raw_secrets, urls))]
    return [secret for secret in {*raw, *map(unquote, raw)} if secret]


def names(variable: str, url: str) -> list[str]:
    """Return the words of a URL that may be shown: names of the user, the host and the database, and the scheme."""
    if not url or malformed(variable, url):
        return []
    if variable == "DATABASE_URL":
        configured = database(url)
        texts = [configured["USER"], configured["NAME"], configured["HOST"]]
    else:
        parts = split_url(url)
        texts = [parts.scheme, parts.username or "", parts.hostname or ""]
    return [word for text in texts for word in re.findall(r"\w+", text)]


def _socket(url: str) -> str:
    """Return Kombu's URL of a Unix socket. The credentials in `url` are before the path, or in the query (redis-py)."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    user, password = (
        quote(unquote(stated or "") or query.get(name, ""), safe="")
        for name, stated in (("username", parts.username), ("password", parts.password))
    )
    login = f"{user}:{password}@" if user or password else ""
    return f"redis+socket://{login}{quote(unquote(parts.path))}?virtual_host={quote(query.get('db', '0'))}"


def _scheme(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    return scheme.lower() if separator else ""


def _fault(name: str, url: str) -> str | None:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in SCHEMES.get(name, {scheme}):
        return f"it must begin with {EXAMPLES[name].partition('//')[0]}//"
    if not _is_spoken(scheme):
        return f"no broker is spoken to by {scheme}://"
    try:
        parts = split_url(url)
        _ = [urlsplit(broker).port for broker in url.split(";")]
        if any(map(_names_a_user_only, url.split(";"))):
            return "its password must stand behind a colon"
        if any(_scheme(broker) not in {"", scheme} for broker in url.split(";")):
            return "all its brokers must begin alike"
    except ValueError:
        return _UNREADABLE
    return _fault_behind_host(name, url, parts)


def _fault_behind_host(name: str, url: str, first: SplitResult) -> str | None:
    path = first.path.strip("/")
    if first.scheme in REDIS_SCHEMES and path and not path.isdecimal():
        return "what follows the last / must be a number"
    if not all(_has_usable_query(name, broker) for broker in url.split(";")):
        return "what follows its ? cannot be used; a password stands before the host"
    return None


def _has_usable_query(name: str, url: str) -> bool:
    """Return whether Kombu and redis-py accept the query. Both parse the URL here, and connect to nothing."""
    if not (parts := urlsplit(url)).query:
        return True
    try:
        if name == "REDIS_URL":
            redis.ConnectionPool.from_url(url).make_connection()
        if parts.scheme != "unix":
            kombu.Connection(with_verified_tls(url))
    except (KeyError, TypeError, ValueError, redis.RedisError):
        return False
    return True


def _fault_of_several(url: str) -> str | None:
    try:
        several.parse(url)
    except ValueError as error:
        return str(error)
    return None


def _is_spoken(scheme: str) -> bool:
    """Return whether Redis or Kombu knows the scheme; Kombu also takes the path of a class as a scheme."""
    if scheme in several.SCHEMES:
        return False
    transport = scheme.partition("+")[0]
    return transport == "unix" or transport in TRANSPORT_ALIASES or "." in transport


def _names_a_user_only(url: str) -> bool:
    """Return whether a Redis URL has a user and no password: its "user" is then the password, and would be shown."""
    parts = urlsplit(url)
    return parts.scheme in REDIS_SCHEMES and bool(parts.username) and parts.password is None


def _database_fault(url: str) -> str | None:
    try:
        configured = database(url)
    except ValueError:
        return _UNREADABLE
    if "@" in _database_parts(url).path:  # the password has a /, and its beginning was taken for the host
        return _UNREADABLE
    if not isinstance(configured["OPTIONS"].get("pool", False), bool):
        return (
            "its pool must be true or false; sizes are set by DATABASES['default']['OPTIONS']['pool'] in the settings"
        )
    return None if configured["NAME"] or "service" in configured["OPTIONS"] else "it names no database"


def _database_parts(url: str) -> SplitResult:
    """Split the URL; its password may have # [ or ] unescaped, if the URL can be read in no other way."""
    with suppress(ValueError):
        if (parts := several.split(url)).path:
            return parts
    scheme, _, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    return several.split(f"{scheme}://{quote(login, safe=':/?&=%')}{at}{place}")


def _hosts(parts: SplitResult) -> list[tuple[str, str]]:
    """Return each host with its port, "" for the usual port. Raises ValueError if a host or port cannot be read."""
    matches = [_HOST.fullmatch(text) for text in unquote(parts.netloc.rpartition("@")[2]).split(",")]
    found = [(match["ipv6"] or match["name"], match["port"] or "") for match in matches if match]
    if len(found) < len(matches) or any(int(port or 0) > _LAST_PORT for _, port in found):
        raise ValueError("a host or a port cannot be read")
    return found


def _folder_and_name(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return (folder, name) if path.startswith("/") else ("", path)


def _raw_secrets(url: str) -> list[str]:
    before_host = url.partition("://")[2].rpartition("@")[0] or url.rpartition("@")[0]
    try:
        query = parse_qsl(several.split(url).query)
    except ValueError:
        query = []
    return [before_host.partition(":")[2], *(text for key, text in query if key in {"password", "sentinel_password"})]
