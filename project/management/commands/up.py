import os
import socket
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from project import embedded
from project.celery import app
from project.processes import interrupts, procfile
from workers.arguments import at_least_one

BROKER_TIMEOUT_S = 3


class Command(BaseCommand):
    help = (
        "Run Weir here: web, a worker, fetchers, a mailer and beat, on embedded servers unless DATABASE_URL and "
        "REDIS_URL name others. Ctrl-C stops everything."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="the web process' port (default: 8000)")
        parser.add_argument("--fetchers", type=at_least_one, default=1, help="how many fetchers (default: 1)")

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            with interrupts.raised_once():
                self._run(options["port"], options["fetchers"])
        except interrupts.Interrupted:
            self.stdout.write("Stopped.")
        except procfile.NotReady as error:
            raise CommandError(str(error)) from error
        except procfile.ProcessesEnded:
            raise CommandError(
                "One of the processes ended, and the others were stopped with it: see its last lines above."
            ) from None

    def _run(self, port: int, fetchers: int) -> None:
        host = os.environ.get("HOST", "") or "127.0.0.1"
        check_port(host, port)
        own_postgres, own_valkey = not os.environ.get("DATABASE_URL"), not os.environ.get("REDIS_URL")
        with ExitStack() as servers:
            if own_postgres or own_valkey:
                servers.enter_context(
                    embedded.servers(settings.EMBEDDED_HOME, postgres=own_postgres, valkey=own_valkey)
                )
            check_servers()
            env = {**os.environ, "HOST": host, "PORT": str(port)}
            if not procfile.release(env):
                raise CommandError("The Procfile's release line failed: what it wrote above says why.")
            counts = {"web": 1, "worker": 1, "fetcher": fetchers, "mailer": 1, "beat": 1}
            with procfile.running(env, counts=counts) as running:
                running.wait_until(lambda: procfile.web_answers(host, port), "the web process does not answer")
                running.wait_until(lambda: procfile.workers_answer(app, running.workers), "not all workers answer")
                self._say_where(host, port)
                running.wait()
                raise procfile.ProcessesEnded

    def _say_where(self, host: str, port: int) -> None:
        base = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104  only compared
        for line in (
            "",
            self.style.SUCCESS("Weir is running. Ctrl-C stops it."),
            f"  state    {base}/healthz",
            f"  admin    {base}/admin/ (make a user: python manage.py createsuperuser)",
            "  fetch    python manage.py fetch https://example.com",
            f"  data     {settings.EMBEDDED_HOME}",
            "",
        ):
            self.stdout.write(line)


def check_port(host: str, port: int) -> None:
    """Raise CommandError unless the web process could listen there."""
    try:
        socket.create_server((host, port)).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"Port {port} of {host} cannot be used ({reason}): choose another with --port.") from error


def check_servers() -> None:
    """Raise the drivers' errors, which `project.errors` tells, unless PostgreSQL and the broker let us in."""
    connection.ensure_connection()
    connection.close()
    with app.connection_for_write() as broker:
        broker.ensure_connection(max_retries=1, timeout=BROKER_TIMEOUT_S)
