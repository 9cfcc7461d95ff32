"""Which of a project's caches share a Redis database with the queues, or with Weir's counters."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from django.conf import settings

from project.environment.urls import joined
from weir.conf.texts import redis_urls as several

_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}
_QUEUES: Final = "the messages that wait in the queues"
_COUNTERS: Final = "Weir's counters, which are then counted anew from all rows"
Place = tuple[str, str]  # a server, or its socket, and the number of the database


class Shared(NamedTuple):
    """A cache that shares its Redis database with Weir or with the broker."""

    alias: str
    variable: str  # the variable that names the same database
    what: str  # what is lost if the cache is cleared


def caches() -> Iterator[Shared]:
    """Yield the caches that share a database with the queues or with the counters."""
    queues, counters = _places(joined(settings.CELERY_BROKER_URL)), _places(settings.REDIS_URL)
    for alias, cache in settings.CACHES.items():
        places = _of_cache(cache)
        if places & queues:
            variable = "REDIS_URL" if places & counters else "CELERY_BROKER_URL"
            yield Shared(alias, variable, _QUEUES)
        elif places & counters:
            yield Shared(alias, "REDIS_URL", _COUNTERS)


def _of_cache(cache: Mapping[str, Any]) -> set[Place]:
    location = cache.get("LOCATION") or ""
    # The LOCATION of other backends may be a Path, or anything.
    urls = location if isinstance(location, list | tuple) else re.split("[;,]", str(location))
    options = cache.get("OPTIONS") or {}
    return {place for url in urls for place in _places(str(url), str(options.get("db", 0)))}


def _places(urls: str, database: str = "0") -> set[Place]:
    """Return the places that the URLs name, in Redis' spelling or in Kombu's; other URLs are left out."""
    if several.kind_of(urls):
        try:
            servers = several.parse(urls)
        except ValueError:  # a cache's backend may have other forms of URLs
            return set()
        return {(f"{host}:{port}", str(servers.database)) for host, port in servers.hosts}
    return {place for url in urls.split(";") if (place := _place(url.strip(), database))}


def _place(url: str, database: str) -> Place | None:
    """Return the place of one URL; None if the URL is not a Redis server's, or cannot be read."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 6379
    except ValueError:
        return None
    query = dict(parse_qsl(parts.query))
    if parts.scheme in {"unix", "redis+socket"}:
        return unquote(parts.path), query.get("db") or query.get("virtual_host") or database
    if parts.scheme not in {"redis", "rediss", "sentinel"}:
        return None
    server = "localhost" if host in _LOOPBACK else host
    return f"{server}:{port}", query.get("db") or parts.path.strip("/") or database
