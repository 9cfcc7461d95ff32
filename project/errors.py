"""An error from outside (a server, a setting) ends a command with one sentence, without a password.

The sentence says what does not work, in the driver's own words, and what to do. Where a server does not work, it points
to `manage.py doctor`, which looks at all of them. `DJANGO_DEBUG=1` or `--traceback` keep the traceback.
"""

import errno
import os
import re
import signal
import socket
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from project.environment import UnreadableVariables, urls
from project.environment.urls import EXAMPLES, REDIS_SCHEMES, SCHEMES, split_url
from project.environment.values import TRUE
from weir.notifications import counters
from weir.notifications.link import urls as several
from weir.workers.mail.transports import relay_urls

LONG = 8  # characters of a secret that stands in a word by no accident
SHORT = 4  # characters of the shortest secret that stands in a sentence by no accident
# Where a password stands as such, whatever it is: in a URL, and behind its name.
_PLACES = (re.compile(r"(://[^\s/@:]*:)[^\s@]+(?=@)"), re.compile(r"(\bpassword=)(?:'[^']*'|[^\s'&]+)", re.IGNORECASE))
# The words of which drivers make their sentences. Masked, such a word would garble the sentence, and show the password.
_ORDINARY = frozenset(
    re.findall(
        r"\w+",
        """
    access address administrator against allowed already another argument arguments asynchronous attempt
    authentication authorization available been broken broker busy canceled cannot certificate channel check clear
    client clients close closed clusterdown command conf configured connect connecting connection connections could
    crash currently database dataset default denied detected disabled disk does encryption ended enough entry error
    errors execabort exist expected expired failed fails failure fatal file files found from given gssapi handshake
    have host hostname ident improperly incorrect internal into invalid isolation issuer known language limit limits
    loading local login lost many master masterdown match maximum maxmemory memory method misconf missing moved must
    name names needed network noauth node none noperm noscript number obsolete open operation options pair pass
    password peer permission permissions permitted persist pgsql port ports postgres postgresql protocol provided
    query reached read reading readonly ready received recovery redis refused rejected remaining replica replicas
    replication requested require required requires reserved resolution resource response role roles root running
    saslname save scram script secret self send server service session sessions shut shutdown shutting signed slots
    slow snapshots socket sorry starting startup statement superuser support supported system temporary terminating
    that there this through timed timeout transaction translate unable unexpected unexpectedly unix unknown
    unreachable unsupported until used user username valkey value verify version weir when while with without word
    write writing wrong wrongpass wrongtype your
        """,
    )
) | {word for number in errno.errorcode for word in re.findall(r"\w+", os.strerror(number).lower())}
DOCTOR = "; `python manage.py doctor` checks the rest"
_UNDEFINED_TABLE = "42P01"
# SQLSTATEs (or their beginnings) that concern the connection, not one statement.
_CONNECTION_STATES = ("08", "57P", "28", "3D", "53300")


@contextmanager
def in_one_sentence(arguments: Sequence[str]) -> Iterator[None]:
    """End the process with exit status 1 and the sentence of `explain` on stderr; raise what has none.

    Variables that cannot be read have a sentence each, on a line of its own.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # who reads it has enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would say so at its end
        sys.exit(128 + signal.SIGPIPE)
    except Exception as error:
        sentence = None if _wants_traceback(arguments) else explain(error, rest=DOCTOR)
        if sentence is None:
            raise
        sys.stderr.write(f"{sentence}\n")
        sys.exit(1)


def explain(error: Exception, *, rest: str = "") -> str | None:
    """Return what happened and what to do, or None for an error that is not from outside.

    The sentence about a server that does not work ends with `rest`.
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
        case kombu.exceptions.OperationalError() | redis.exceptions.RedisError() | counters.Unreachable():
            return _broker(error, rest)
        case ImproperlyConfigured():
            return without_secrets(str(error))
    return None


def database_place() -> str:
    """Return the server that the settings name, as it may be shown."""
    return f"PostgreSQL at {_place_of(settings.DATABASES['default'])}"


def without_secrets(text: str) -> str:
    """Return the text on one line, without the passwords that the environment has."""
    return redacted(text, _secrets(), _names())


def redacted(text: str, secrets: Sequence[str], names: Collection[str] = ()) -> str:
    """Return the text on one line, with *** for each secret.

    1. What stands where a password stands is masked, whatever it is.
    2. Elsewhere, a secret is masked where it is no part of a word; a long one that is no word itself, anywhere.
    3. A secret that a sentence has by accident stays there: one of few letters, a word that drivers use, or one of the
       `names` of users and hosts. Masked, it would be told: the sentence is the same whatever the password is.
    """
    for place in _PLACES:
        text = place.sub(r"\1***", text)
    ordinary = _ORDINARY.union(name.lower() for name in names)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) < SHORT or secret.lower() in ordinary:
            continue
        word = re.escape(secret)
        is_anywhere = len(secret) >= LONG and not secret.isalpha()
        text = re.sub(word if is_anywhere else rf"(?<!\w){word}(?!\w)", "***", text)
    return " ".join(text.split())


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
        return embedded.not_running_hint()
    log = settings.EMBEDDED_HOME / "postgres.log"
    return f"The embedded PostgreSQL does not work ({_reason(error)}): see {log}{rest}."


def _broker(error: Exception, rest: str) -> str:
    variables = ["REDIS_URL"] if isinstance(error, counters.Unreachable) else ["CELERY_BROKER_URL", "REDIS_URL"]
    variable = next((name for name in variables if os.environ.get(name)), None)
    if variable:
        return f"{_server(variable)} does not work ({_reason(error)}): check {variable}{rest}."
    if _takes_no_connections(embedded.valkey_socket(settings.EMBEDDED_HOME)):
        return "Valkey is not running: start it with `make up`, or set REDIS_URL to a server of your own."
    log = settings.EMBEDDED_HOME / "valkey.log"
    return f"The embedded Valkey does not work ({_reason(error)}): see {log}{rest}."


def _server(variable: str) -> str:
    """Return what the variable's URL names, without a password."""
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
    """Tell whether no process listens on this socket: drivers say that in words that change."""
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
    """Return a place as it may be shown: an @ in it means that a part of a password was taken for it."""
    return without_secrets(place) if "@" in place else place


def _reason(error: Exception) -> str:
    """Return the driver's own words, without the guesses at a cause that libpq adds behind a tab."""
    lines = [line for line in str(error).splitlines() if not line.startswith("\t")]
    return without_secrets(" ".join(lines)).rstrip(".") or type(error).__name__


def _sqlstate(error: Exception) -> str | None:
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return cause.sqlstate if isinstance(cause, psycopg.Error) else None


def _secrets() -> list[str]:
    given = [os.environ.get(variable, "") for variable in ("EMAIL_HOST_PASSWORD", "DJANGO_SECRET_KEY")]
    given += relay_urls.secrets(os.environ.get("WEIR_MAIL_RELAYS", ""))
    return [*urls.secrets(*(os.environ.get(variable, "") for variable in EXAMPLES)), *filter(None, given)]


def _names() -> list[str]:
    return [name for variable in EXAMPLES for name in urls.names(variable, os.environ.get(variable, "").strip())]
