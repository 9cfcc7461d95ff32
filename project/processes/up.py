"""Weir on one machine, from its servers to its web page: what `manage.py up` runs.

1. Hold the folder: only one `up` runs from it. Check that the web process can listen, before anything is started.
2. Start the embedded servers, unless the environment names others, and the mail catcher, unless the environment names a
   mail server. Check that PostgreSQL and the broker accept our connections.
3. Run the Procfile's `release` line, then all of its processes, if this process can import the tasks.
4. Announce once the web process and all workers answer. Start the processes anew when code has changed (`reloader.py`),
   and an embedded server when it has ended; stop everything when one process ends by itself.
"""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings
from django.db import connection

from project import embedded, environment
from project.celery import app
from project.checkout import CHECKOUT
from project.environment import secret_key
from project.logs import formats
from project.processes import folder, loading, procfile, reloader
from weir.conf import settings as weir_settings

BROKER_TIMEOUT_S = 3
PORT_LEFT_WITHIN_S = 5.0  # a web process that is asked to end closes its port immediately
_CATCHER = Path(__file__).with_name("mail_catcher.py")  # not imported: it needs the extra `embedded`
_LOCAL = "127.0.0.1"
LOOPBACK = "127.0.0.0/8,::1/128"
# Variables that `up` itself uses, so that a new value in .env takes effect with the next `up`.
_WAYS_OUT = ("EMAIL_HOST", "EMAIL_BACKEND", "WEIR_MAIL_RELAYS")
_HELD = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "WEIR_HOME", *_WAYS_OUT)
# Celery warns of a worker that root runs, in eight lines. `up` hides them from a developer; production keeps them.
_NOT_TOLD = "ignore:You're running the worker with superuser privileges"


class CannotStart(Exception):
    """Something that a process needs is missing; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line of `up` says."""

    port: int
    fetchers: int
    reloads: bool
    allows_loopback: bool


@dataclass(frozen=True, kw_only=True)
class Running:
    """What `up` announces: the host of the web page, the options, and the folder of caught e-mails, if there is one."""

    host: str
    options: Options
    mail: Path | None


def run(options: Options, announce: Callable[[Running], None], say: Callable[[str], None]) -> None:
    """Run Weir until one of its processes ends by itself, and raise ProcessesEnded then.

    `say` gets a line about each reload. When the function is left, with any exception, it stops everything. Also raises
    AlreadyRuns, CannotStart, NotReady, EmbeddedError, and the drivers' errors, which `project.errors` puts into
    sentences.
    """
    home = settings.EMBEDDED_HOME
    host = os.environ.get("HOST", "") or "127.0.0.1"
    folder.refuse_second(home)
    if environment.was_decided():  # another `up` still ran when this one read its settings
        raise CannotStart("Another `up` of this folder has just ended: start this one again.")
    _check_port(host, options.port)
    mail = home / "mail" if _catches() else None
    decided = {**(_to_catcher() if mail else {}), **(_with_loopback() if options.allows_loopback else {})}
    with folder.held(home, options.port, decided), ExitStack() as stack:
        if mail is not None:
            catcher = stack.enter_context(_catcher(int(decided["EMAIL_PORT"]), mail))
        keep_servers = partial(stack.enter_context(_servers()), say)
        if mail is not None:
            stack.callback(catcher.end)  # after the mailers have ended, while the servers end
        _check_servers()
        env = _environment(host, options.port) | decided
        if not procfile.release(env):
            raise CannotStart("The Procfile's release line failed: what it wrote above says why.")
        if told := loading.refusal_of_tasks():
            raise CannotStart(f"The tasks cannot be imported:\n{told}")
        alone = dict.fromkeys(("web", "worker", "weir"), 1)
        counts = {**alone, "fetcher": options.fetchers}
        start, ready = partial(_started, host, env, counts), partial(_wait_until_ready, host, options.port)
        announced = partial(announce, Running(host=host, options=options, mail=mail))
        if options.reloads:
            reloader.Reloader(
                start=start,
                wait_until_ready=ready,
                announce=announced,
                say=say,
                refusal_of_env=partial(environment.refusal, CHECKOUT / ".env", env),
                refusal_of_code=partial(loading.refusal, env),
                keep_servers=keep_servers,
            ).run()
        with start() as running:
            ready(running, keep_servers)
            announced()
            while True:
                running.check()
                keep_servers()
                time.sleep(procfile.POLL_S)


def _catches() -> bool:
    """Return whether e-mails go to the catcher: no variable names a mail server, and aiosmtpd is installed."""
    is_told = any(os.environ.get(name) for name in _WAYS_OUT)
    return not is_told and find_spec("aiosmtpd") is not None


def _environment(host: str, port: int) -> dict[str, str]:
    """Return the processes' environment. Most variables of .env are left out: processes read them at each start."""
    made = {"HOST": host, "PORT": str(port), "UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN": "3", **_logs()}
    if "DJANGO_SECRET_KEY" not in os.environ:
        made["DJANGO_SECRET_KEY"] = secret_key.of_checkout(settings.EMBEDDED_HOME)
    held = {name: os.environ[name] for name in _HELD if name in os.environ}
    return environment.given() | held | made


def _logs() -> dict[str, str]:
    """Return the variables that make logs readable at a terminal; a variable of the environment wins."""
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    quiet = {"CELERY_QUIET": "1", "UVICORN_LOG_LEVEL": "warning"}
    readable = {"WEIR_LOG_FORMAT": "colour" if is_coloured else "text", **quiet}
    warnings = ",".join(filter(None, (_NOT_TOLD, os.environ.get("PYTHONWARNINGS"))))  # the last entry wins
    chosen = {name: value for name, value in readable.items() if not os.environ.get(name)}
    return {**chosen, "PYTHONWARNINGS": warnings, formats.TOLD: "user_agent_without_contact"}


def _to_catcher() -> dict[str, str]:
    """Return the variables that make mailers connect to the catcher, at a free port."""
    with socket.create_server((_LOCAL, 0)) as found:
        port = found.getsockname()[1]
    plain = dict.fromkeys(("EMAIL_HOST_USER", "EMAIL_HOST_PASSWORD", "EMAIL_USE_TLS", "EMAIL_USE_SSL"), "")
    return {"EMAIL_HOST": _LOCAL, "EMAIL_PORT": str(port), **plain}


def _with_loopback() -> dict[str, str]:
    return {"WEIR_FETCH_ALLOW_NETS": ",".join([*weir_settings.WEIR_FETCH_ALLOW_NETS, LOOPBACK])}


@contextmanager
def _catcher(port: int, path: Path) -> Iterator[procfile.Processes]:
    command = [sys.executable, "-P", str(_CATCHER), str(port), str(path)]
    with procfile.beside(environment.given(), "mail", command) as catcher:
        catcher.wait_until(partial(_listens, port), "the mail catcher does not answer")
        yield catcher


@contextmanager
def _started(host: str, env: Mapping[str, str], counts: Mapping[str, int]) -> Iterator[procfile.Processes]:
    """Run the processes, as soon as the port is free: an earlier web process may still be ending."""
    give_up_at = time.monotonic() + PORT_LEFT_WITHIN_S
    while not _is_free(host, int(env["PORT"])) and time.monotonic() < give_up_at:
        time.sleep(procfile.POLL_S)
    with procfile.running(env, counts=counts) as running:
        yield running


def _is_free(host: str, port: int) -> bool:
    try:
        _check_port(host, port)
    except CannotStart:
        return False
    return True


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((_LOCAL, port)) == 0


def _wait_until_ready(host: str, port: int, running: procfile.Processes, check: Callable[[], None]) -> None:
    """Return when all processes answer; calls `check` meanwhile. Raises ProcessesEnded, and NotReady."""

    def answers(ready: Callable[[], bool]) -> Callable[[], bool]:
        def checked() -> bool:
            check()
            return ready()

        return checked

    running.wait_until(answers(lambda: procfile.web_answers(host, port)), "the web process does not answer")
    running.wait_until(answers(lambda: procfile.workers_answer(app, running.workers)), "not all workers answer")


def _check_port(host: str, port: int) -> None:
    """Raise CannotStart unless the web process could listen there."""
    try:
        socket.create_server((host, port)).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CannotStart(f"Port {port} of {host} cannot be used ({reason}): choose another with --port.") from error


@contextmanager
def _servers() -> Iterator[Callable[[Callable[[str], None]], None]]:
    """Run an embedded server for each of DATABASE_URL and REDIS_URL that the environment does not set.

    Yields `EmbeddedServers.start_again`, or what does nothing if the environment sets both.
    """
    postgres, valkey = not os.environ.get("DATABASE_URL"), not os.environ.get("REDIS_URL")
    if not (postgres or valkey):
        yield lambda _say: None
        return
    with embedded.servers(settings.EMBEDDED_HOME, postgres=postgres, valkey=valkey) as running:
        yield running.start_again


def _check_servers() -> None:
    """Raise a driver's error unless PostgreSQL and the broker accept our connections."""
    connection.ensure_connection()
    connection.close()
    with app.connection_for_write() as broker:
        broker.ensure_connection(max_retries=1, timeout=BROKER_TIMEOUT_S)
