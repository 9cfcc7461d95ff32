"""Weir on one machine, from its servers to its web page: what `manage.py up` runs.

1. Check that the web process can listen, before anything is started.
2. Start the embedded servers, unless the environment names others, and check that PostgreSQL and the broker let us in.
3. Run the Procfile's `release` line, then all of its processes.
4. Announce once the web process and all workers answer; stop everything when one process ends.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from django.conf import settings
from django.db import connection

from project import embedded
from project.celery import app
from project.environment import secret_key
from project.processes import procfile

BROKER_TIMEOUT_S = 3


class CannotStart(Exception):
    """Something that a process needs is not there; the message says what."""


def run(port: int, fetchers: int, announce: Callable[[str, int], None]) -> None:
    """Run Weir until one of its processes ends, which raises ProcessesEnded; `announce` gets host and port.

    Leaving, however it happens, stops everything. Also raises CannotStart, NotReady, EmbeddedError, and the drivers'
    errors, which `project.errors` puts into sentences.
    """
    host = os.environ.get("HOST", "") or "127.0.0.1"
    _check_port(host, port)
    with _servers():
        _check_servers()
        env = {"DJANGO_SECRET_KEY": _key(), **os.environ, "HOST": host, "PORT": str(port)}
        if not procfile.release(env):
            raise CannotStart("The Procfile's release line failed: what it wrote above says why.")
        counts = {"web": 1, "worker": 1, "ticks": 1, "fetcher": fetchers, "mailer": 1, "beat": 1}
        with procfile.running(env, counts=counts) as running:
            running.wait_until(lambda: procfile.web_answers(host, port), "the web process does not answer")
            running.wait_until(lambda: procfile.workers_answer(app, running.workers), "not all workers answer")
            announce(host, port)
            running.wait()
            raise procfile.ProcessesEnded


def _check_port(host: str, port: int) -> None:
    """Raise CannotStart unless the web process could listen there."""
    try:
        socket.create_server((host, port)).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CannotStart(f"Port {port} of {host} cannot be used ({reason}): choose another with --port.") from error


@contextmanager
def _servers() -> Iterator[None]:
    """Run the embedded servers for which the environment names no other."""
    postgres, valkey = not os.environ.get("DATABASE_URL"), not os.environ.get("REDIS_URL")
    with ExitStack() as stack:
        if postgres or valkey:
            stack.enter_context(embedded.servers(settings.EMBEDDED_HOME, postgres=postgres, valkey=valkey))
        yield


def _key() -> str:
    """Return a key of this checkout's own, which holds where the environment has none."""
    settings.EMBEDDED_HOME.mkdir(parents=True, exist_ok=True)
    return secret_key.of_checkout(settings.EMBEDDED_HOME)


def _check_servers() -> None:
    """Raise a driver's error unless PostgreSQL and the broker let us in."""
    connection.ensure_connection()
    connection.close()
    with app.connection_for_write() as broker:
        broker.ensure_connection(max_retries=1, timeout=BROKER_TIMEOUT_S)
