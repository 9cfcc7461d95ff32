"""What ends a command from outside (servers, settings), told in one sentence and without a password.

`DJANGO_DEBUG=1` or `--traceback` keep the traceback.
"""

import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import django.db
import kombu.exceptions
import psycopg
import redis.exceptions
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from notifications import counters
from project import embedded
from project.environment import EXAMPLES, REDIS_SCHEMES, SCHEMES, TRUE, malformed, split_url

# What servers and drivers say, and what we make of it: the first that matches.
REASONS = (
    (r"password authentication failed|invalid username-password|WRONGPASS", "refused the password"),
    (r"no password supplied|NOAUTH|Authentication required", "wants a password"),
    (r"role .* does not exist", "does not know this user"),
    (r"database .* does not exist", "has no database of this name"),
    (r"no pg_hba.conf entry", "does not let this user in from here"),
    (r"too many (clients|connections)|connection slots", "has no connection left"),
    (r"starting up|Loading|LOADING", "is still starting"),
    (r"resolve host|translate host|not known|No address", "does not answer (there is no such host)"),
    (r"[Cc]onnection refused", "does not answer (connection refused)"),
    (r"No such file", "does not answer (nobody listens on its socket)"),
    (r"[Tt]ime(d )?out", "does not answer (no reply in time)"),
    (r"closed the connection|terminating connection|onnection .*closed", "broke the connection off"),
)
_DOWN = re.compile(r"No such file|[Cc]onnection refused")
# django-environ prints what it made of a URL it cannot read, password included.
_TELLTALE_WARNINGS = r"(Engine not recognized|SQLite URL contains)"
_UNDEFINED_TABLE = "42P01"
# SQLSTATEs (or their beginnings) that concern the connection, not one statement.
_CONNECTION_STATES = ("08", "57P", "28", "3D", "53300")


@contextmanager
def in_one_sentence(arguments: Sequence[str]) -> Iterator[None]:
    """Where `explain` knows the error: one sentence on stderr and exit status 1; others pass."""
    warnings.filterwarnings("ignore", message=_TELLTALE_WARNINGS)
    try:
        yield
    except Exception as error:
        sentence = None if _wants_traceback(arguments) else explain(error)
        if sentence is None:
            raise
        sys.stderr.write(f"{sentence}\n")
        sys.exit(1)


def explain(error: Exception) -> str | None:
    """Return what happened and what to do, or None for an error that is not from outside."""
    if isinstance(error, embedded.EmbeddedError):
        return str(error)
    if not settings.configured:
        return _unconfigured(error, [] if isinstance(error, ImproperlyConfigured) else ["DATABASE_URL"])
    if isinstance(error, django.db.ProgrammingError):
        return _without_tables(error)
    if isinstance(error, django.db.OperationalError | django.db.InterfaceError | psycopg.OperationalError):
        return _database(error)
    if isinstance(error, kombu.exceptions.OperationalError | redis.exceptions.RedisError | counters.Unreachable):
        variables = ["REDIS_URL"] if isinstance(error, counters.Unreachable) else ["CELERY_BROKER_URL", "REDIS_URL"]
        return _malformed(variables[::-1]) or _broker(error, variables)
    return _unconfigured(error, [*EXAMPLES] if isinstance(error, ImproperlyConfigured) else [*EXAMPLES][1:])


def redacted(text: str, secrets: Sequence[str]) -> str:
    """Return the text on one line, with *** for each secret."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return " ".join(text.split())


def _wants_traceback(arguments: Sequence[str]) -> bool:
    return "--traceback" in arguments or os.environ.get("DJANGO_DEBUG", "").strip().lower() in TRUE


def _unconfigured(error: Exception, variables: Sequence[str]) -> str | None:
    """Explain what an unreadable setting raises: ImproperlyConfigured, or some library's own error."""
    if not isinstance(error, ImproperlyConfigured | ValueError | KeyError):
        return None
    if sentence := _malformed(variables):
        return sentence
    return redacted(str(error), _secrets()) if isinstance(error, ImproperlyConfigured) else None


def _malformed(variables: Sequence[str]) -> str | None:
    sentences = (malformed(variable, os.environ.get(variable, "")) for variable in variables)
    return next(filter(None, sentences), None)


def _without_tables(error: django.db.ProgrammingError) -> str | None:
    if _sqlstate(error) != _UNDEFINED_TABLE:
        return None
    return "The database lacks tables that this command needs: run `python manage.py migrate`."


def _database(error: Exception) -> str:
    text, configured = str(error), settings.DATABASES["default"]
    state = _sqlstate(error)
    if state and not state.startswith(_CONNECTION_STATES):
        return f"PostgreSQL could not do it: {_told(text)}."
    if os.environ.get("DATABASE_URL"):
        return f"PostgreSQL at {_place_of(configured)} {_reason(text)}: check DATABASE_URL."
    if _DOWN.search(text):
        return embedded.not_running_hint()
    return f"The embedded PostgreSQL {_reason(text)}: see {settings.EMBEDDED_HOME / 'postgres.log'}."


def _broker(error: Exception, variables: Sequence[str]) -> str:
    variable = next((name for name in variables if os.environ.get(name)), None)
    if variable is None:
        if _DOWN.search(str(error)):
            return "Valkey is not running: start it with `make up`, or set REDIS_URL to a server of your own."
        return f"The embedded Valkey {_reason(str(error))}: see {settings.EMBEDDED_HOME / 'valkey.log'}."
    url = split_url(os.environ[variable])
    name = "Redis" if url.scheme in SCHEMES["REDIS_URL"] else "The broker"
    port = url.port or (6379 if url.scheme in REDIS_SCHEMES else None)
    place = f"{url.hostname}:{port}" if url.hostname and port else url.hostname or ""
    return f"{name} at {_shown(place + url.path)} {_reason(str(error))}: check {variable}."


def _place_of(configured: Mapping[str, Any]) -> str:
    host, port = str(configured["HOST"]), configured.get("PORT") or 5432
    if not host or host.startswith("/"):
        return f"{host or 'its default socket'}, database {configured['NAME']},"
    return _shown(f"{host}:{port}/{configured['NAME']}")


def _shown(place: str) -> str:
    """Return a place as it may be shown: an @ in it means that a part of a password was taken for it."""
    return redacted(place, _secrets()) if "@" in place else place


def _reason(text: str) -> str:
    known = next((words for pattern, words in REASONS if re.search(pattern, text)), None)
    return known or f"does not work ({_told(text)})"


def _told(text: str) -> str:
    return redacted(text, _secrets()).rstrip(".")


def _sqlstate(error: Exception) -> str | None:
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return cause.sqlstate if isinstance(cause, psycopg.Error) else None


def _secrets() -> list[str]:
    """Return every spelling of the passwords in the environment's URLs, however malformed these are."""
    urls = [os.environ.get(variable, "") for variable in EXAMPLES]
    raw = [*chain.from_iterable(map(_raw_secrets, urls))]
    return [secret for secret in {*raw, *map(unquote, raw)} if secret]


def _raw_secrets(url: str) -> list[str]:
    before_host = url.partition("://")[2].rpartition("@")[0] or url.rpartition("@")[0]
    try:
        query = parse_qs(urlsplit(url).query)
    except ValueError:
        query = {}
    return [before_host.partition(":")[2], *query.get("password", [])]
