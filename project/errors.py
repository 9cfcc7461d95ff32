"""An error from outside (a server, a setting) ends a command with one sentence, without a password.

The sentence says in the driver's own words what does not work, and what to do. A sentence about a server also names
`manage.py doctor`, which checks all servers. `DJANGO_DEBUG=1` or `--traceback` keeps the traceback.
"""

import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django.db
import kombu.exceptions
import psycopg
import redis.exceptions
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from project import embedded
from project.environment import UnreadableVariables
from project.environment.redacting import without_secrets
from project.environment.urls import REDIS_SCHEMES, SCHEMES, split_url
from project.processes import folder
from weir.conf.kinds import TRUE
from weir.conf.texts import redis_urls as several
from weir.notifications import counters
from weir.workers import broker_link

DOCTOR = "; `python manage.py doctor` checks the rest"
_UNDEFINED_TABLE = "42P01"
# SQLSTATEs (or their beginnings) that concern the connection, not one statement.
_CONNECTION_STATES = ("08", "57P", "28", "3D", "53300")


@contextmanager
def in_one_sentence(arguments: Sequence[str]) -> Iterator[None]:
    """Turn an error in the block into exit status 1 and the sentence of `explain`, on stderr; else re-raise the error.

    Each variable that cannot be read has a sentence on its own line.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has read enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python reports the error at its exit
        sys.exit(128 + signal.SIGPIPE)
    except Exception as error:
        sentence = None if _wants_traceback(arguments) else explain(error, rest=DOCTOR)
        if sentence is None:
            raise
        sys.stderr.write(f"{sentence}\n")
        sys.exit(1)


def explain(error: Exception, *, rest: str = "") -> str | None:
    """Return a sentence that says what happened and what to do; None for an error that is not from outside.

    `rest` is added to a sentence about a server that does not work.
    """
    match error:
        case embedded.EmbeddedError() | UnreadableVariables():
            return str(error)
        case django.db.ProgrammingError():
            return _without_tables(error)
        case (
            django.db.OperationalError()
            | django.db.InterfaceError()
            | django.db.InternalError()  # such as a standby, which takes no writes
            | psycopg.OperationalError()
        ):
            return _database(error, rest)
        case kombu.exceptions.OperationalError() | redis.exceptions.RedisError() | counters.RedisUnreachable():
            return _broker(error, rest)
        case ImproperlyConfigured():
            return without_secrets(str(error))
    return None


def database_place() -> str:
    """Return the name of the PostgreSQL server in the settings, without a password."""
    return f"PostgreSQL at {_place_of(settings.DATABASES['default'])}"


def _wants_traceback(arguments: Sequence[str]) -> bool:
    return "--traceback" in arguments or os.environ.get("DJANGO_DEBUG", "").strip().lower() in TRUE


def _without_tables(error: django.db.ProgrammingError) -> str | None:
    if _sqlstate(error) != _UNDEFINED_TABLE:
        return None
    return "The database lacks tables that this command needs: run `python manage.py migrate`."


def _database(error: Exception, rest: str) -> str:
    configured = settings.DATABASES["default"]
    state = _sqlstate(error)
    if state and not state.startswith(_CONNECTION_STATES):
        return f"PostgreSQL could not do it: {without_secrets(str(error)).rstrip('.')}."
    if os.environ.get("DATABASE_URL"):
        return f"{database_place()} does not work ({_reason(error)}): check DATABASE_URL{rest}."
    if _takes_no_connections(Path(configured["HOST"]) / ".s.PGSQL.5432"):
        return _not_running("PostgreSQL", "DATABASE_URL")
    log = settings.EMBEDDED_HOME / "postgres.log"
    return f"The embedded PostgreSQL does not work ({_reason(error)}): see {log}{rest}."


def _broker(error: Exception, rest: str) -> str:
    variables = ["REDIS_URL"] if isinstance(error, counters.RedisUnreachable) else ["CELERY_BROKER_URL", "REDIS_URL"]
    variable = next((name for name in variables if os.environ.get(name)), None)
    if remedy := broker_link.remedy(error, variable):
        server = _server(variable) if variable else "The embedded Valkey"
        return f"{server} answers, and refuses what it is told ({_reason(error)}): {remedy}{rest}."
    if variable:
        return f"{_server(variable)} does not work ({_reason(error)}): check {variable}{rest}."
    if _takes_no_connections(embedded.valkey_socket(settings.EMBEDDED_HOME)):
        return _not_running("Valkey", "REDIS_URL")
    log = settings.EMBEDDED_HOME / "valkey.log"
    return f"The embedded Valkey does not work ({_reason(error)}): see {log}{rest}."


def _not_running(name: str, variable: str) -> str:
    """Return what to do about an embedded server that takes no connections. An `up` that runs starts its own again."""
    up = folder.running(settings.EMBEDDED_HOME)
    if up is None:
        return f"{name} is not running: start it with `make up`, or set {variable} to a server of your own."
    return (
        f"{name} is not running, though `make up` runs from this folder (pid {up.pid}), which starts it again if it "
        f"has ended: try again in a few seconds, or see its terminal. If {variable} is set there, set it here, too."
    )


def _server(variable: str) -> str:
    """Return the name of the server in the variable's URL, without a password."""
    url = split_url(os.environ[variable])
    name = "Redis" if url.scheme in SCHEMES["REDIS_URL"] else "The broker"
    if several.kind_of(os.environ[variable]):
        return f"{name} at {_shown(url.netloc.rpartition('@')[2] + url.path)}"
    port = url.port or (6379 if url.scheme in REDIS_SCHEMES else None)
    place = f"{url.hostname}:{port}" if url.hostname and port else url.hostname or ""
    return f"{name} at {_shown(place + url.path)}"


def _place_of(configured: Mapping[str, Any]) -> str:
    """Return where the database is, without a password."""
    host, port = str(configured["HOST"]), configured.get("PORT") or 5432
    if not host or host.startswith("/"):
        return f"{host or 'its default socket'}, database {configured['NAME']},"
    return _shown(f"{host}:{port}/{configured['NAME']}")


def _takes_no_connections(path: Path) -> bool:
    """Return whether no process listens on this socket. The words with which drivers say so differ between versions."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return True
        except OSError:
            return False
    return False


def _shown(place: str) -> str:
    """Return a place without secrets. If it has an @, a part of the password was taken for the place."""
    return without_secrets(place) if "@" in place else place


def _reason(error: Exception) -> str:
    """Return the driver's own words, without the possible causes that libpq adds on lines that begin with a tab."""
    lines = [line for line in str(error).splitlines() if not line.startswith("\t")]
    return without_secrets(" ".join(lines)).rstrip(".") or type(error).__name__


def _sqlstate(error: Exception) -> str | None:
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return cause.sqlstate if isinstance(cause, psycopg.Error) else None
